/** What a model's file says about the pixels that it takes. */
import type { Value } from '../../onnx/graph/graph.js';
import { readPixelInput, type PixelInput, type PixelStep } from '../../onnx/graph/names/pixel-input.js';
import { readAttributes } from '../../onnx/file/scan/attributes.js';
import { readModelMetadata } from '../../onnx/file/model-metadata.js';
import { elementTypeName } from '../../onnx/file/wire/schema.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import { isDType } from '../../onnx/tensor/tensor.js';
import { widen } from '../../onnx/tensor/widen.js';
import { modelInternals, type ModelState } from './open/model-state.js';
import type { OnnxModel } from './open/open-model.js';
import { readElements } from './open/read-initializer.js';

/** The image input of a model, and what its constants and metadata say. */
export interface PixelFacts extends PixelInput {
  /** What the graph does to each channel first, as `x · factor + shift`; undefined if it does nothing that a constant states. */
  readonly scaling: Scaling | undefined;
  /** The task of a model that Ultralytics exported. */
  readonly ultralytics: string | undefined;
}

interface Scaling {
  readonly factor: readonly number[];
  readonly shift: readonly number[];
}

/** A shift or a factor has one value, or one for each channel. */
const MOST_VALUES = 4;
const EPSILON = 1e-5;

/** Reads what the file says about the pixels; undefined without a single image input. Throws as {@link readInitializerBytes}. */
export function readPixelFacts(model: OnnxModel): PixelFacts | undefined {
  const state = modelInternals.of(model);
  const input = readPixelInput(state.graph);
  if (!input) return undefined;
  return state.readNow((source) => {
    const reader = new WireReader(source);
    const metadata = readModelMetadata(reader, ['author', 'task']);
    const ultralytics = metadata.get('author') === 'Ultralytics' ? (metadata.get('task') ?? '') : undefined;
    return { ...input, scaling: readScaling(state, reader, input.steps), ultralytics };
  });
}

function readScaling(
  state: ModelState,
  reader: WireReader,
  steps: readonly PixelStep[],
): Scaling | undefined {
  let scaling: Scaling = { factor: [1], shift: [0] };
  for (const step of steps) {
    const constants = step.constants.map((value) => readNumbers(state, reader, value));
    if (!constants.every((numbers) => numbers !== undefined)) break;
    const next = applyStep(scaling, step, constants);
    if (!next) break;
    scaling = next;
  }
  const isPlain = scaling.factor.every((x) => x === 1) && scaling.shift.every((x) => x === 0);
  return isPlain ? undefined : scaling;
}

function applyStep(
  { factor, shift }: Scaling,
  { node, isFirst }: PixelStep,
  [first = [], offset = [], mean = [], variance = []]: readonly (readonly number[])[],
): Scaling | undefined {
  const channels = Math.max(factor.length, first.length);
  const each = (compute: (channel: number) => number): number[] =>
    Array.from({ length: channels }, (_, channel) => compute(channel));
  const at = (numbers: readonly number[], channel: number): number => numbers[channel] ?? numbers[0]!;
  const map = (scale: (c: number) => number, move: (c: number) => number): Scaling => ({
    factor: each((c) => at(factor, c) * scale(c)),
    shift: each((c) => at(shift, c) * scale(c) + move(c)),
  });
  const value = (channel: number): number => at(first, channel);
  if (node.opType === 'BatchNormalization') {
    const scale = (c: number): number => value(c) / Math.sqrt(at(variance, c) + EPSILON);
    return map(scale, (c) => at(offset, c) - at(mean, c) * scale(c));
  }
  if (node.opType === 'Add') return map(() => 1, value);
  if (node.opType === 'Mul') return map(value, () => 0);
  if (node.opType === 'Sub')
    return isFirst
      ? map(
          () => 1,
          (c) => -value(c),
        )
      : map(() => -1, value);
  return isFirst
    ? map(
        (c) => 1 / value(c),
        () => 0,
      )
    : undefined;
}

/** The numbers of a small constant; undefined for anything larger. */
function readNumbers(state: ModelState, reader: WireReader, value: Value): number[] | undefined {
  const constant = value.producer && readAttributes(reader, value.producer.scanned);
  const float = constant?.get('value_float')?.float;
  if (float !== undefined) return [float];
  const tensor = value.initializer ?? constant?.get('value')?.tensor;
  const dtype = tensor && elementTypeName(tensor.elemType);
  const count = tensor?.dims.reduce((product, size) => product * size, 1) ?? 0;
  if (!tensor || count < 1 || count > MOST_VALUES || !isDType(dtype)) return undefined;
  return Array.from(widen(dtype, readElements(reader, state, tensor).buffer));
}
