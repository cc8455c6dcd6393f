/** Models whose sessions read large weights from the file of the source model, instead of getting them as a part of the model. */
import { realpathSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { externalTensors } from '../../../onnx/graph/rewrite/describe.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { layOutRewrite } from '../../../onnx/graph/rewrite/lay-out.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { collectChunks } from '../../../onnx/file/emit.js';
import { pointAtWeights } from '../../../onnx/file/move-weights.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { ELEMENT_TYPE, TENSOR } from '../../../onnx/file/wire/schema.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { writeEntry } from '../../../onnx/file/wire/write-model.js';
import { ADDRESS_DIGITS } from '../../runtime/lanes/protocol.js';
import type { SessionOptions } from '../../runtime/lanes/session-options.js';
import { listHostNodes } from '../open/check-runnable.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeModel, type ModelDescription } from './session-model.js';

/**
 * Describes a rewritten model whose session reads weights from the file of the source model. Copying them first would take a
 * third of the time that a session needs to open (docs/decisions/015-mapped-weights.md).
 */
export function describeMapped(
  model: OnnxModel,
  rewrite: Rewrite,
  session: SessionOptions,
): Promise<ModelDescription> {
  return describePointed(model, rewrite, repackedWeights(rewrite, session), false);
}

/** The location by which OpenVINO takes an offset as an address in memory. ONNX Runtime's provider for it hands weights over so. */
const IN_MEMORY = '*/_ORT_MEM_ADDR_/*';

/**
 * Describes a rewritten model to OpenVINO: the lane maps the file of the source model, and the library copies the weights from there.
 * Reading them as a part of the model takes five times as long (docs/decisions/025-openvino.md).
 */
export function describeInMemory(model: OnnxModel, rewrite: Rewrite): Promise<ModelDescription> {
  const weights = plainWeights(rewrite).map(({ initializer }) => initializer);
  return describePointed(model, rewrite, weights, true);
}

/** Where the digits of the offsets of {@link IN_MEMORY} begin. */
function findOffsets(bytes: Uint8Array): number[] {
  const model = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries = [
    ...writeEntry(TENSOR.externalData, 'location', IN_MEMORY),
    ...writeEntry(TENSOR.externalData, 'offset', '0'.repeat(ADDRESS_DIGITS)),
  ];
  const before = Buffer.concat(entries).subarray(0, -ADDRESS_DIGITS);
  const found: number[] = [];
  for (let at = model.indexOf(before); at >= 0; at = model.indexOf(before, at + before.length))
    found.push(at + before.length);
  return found;
}

/** Describes a model whose session reads these weights at offsets into the source model's file, or in memory. */
function describePointed(
  model: OnnxModel,
  rewrite: Rewrite,
  weights: readonly ScannedTensor[],
  isInMemory: boolean,
): Promise<ModelDescription> {
  const { file, withSource } = modelInternals.of(model);
  if (!file || weights.length === 0 || externalTensors(rewrite).length > 0)
    return describeModel(model, rewrite);
  return withSource(async (source) => {
    // onnxruntime refuses a link that leads out of the given folder.
    const path = realpathSync(file.path);
    const reader = new WireReader(source);
    const lengths = new Map(weights.map((tensor) => [tensor, bytesOf(tensor)]));
    const pointed = isInMemory
      ? pointAtWeights(reader, lengths, IN_MEMORY, ADDRESS_DIGITS)
      : pointAtWeights(reader, lengths, basename(path));
    const chunks = layOutRewrite(rewrite, 'tensors', reader, pointed);
    const bytes = await collectChunks(source, chunks);
    return {
      model: bytes,
      externalFolder: isInMemory ? undefined : dirname(path),
      weightsFile: { ...file, path },
      offsetsAt: isInMemory ? findOffsets(bytes) : undefined,
      hostNodes: listHostNodes(rewrite),
    };
  });
}

/** Smaller weights travel with the model: mapping a file costs a page and a call. */
const LEAST_BYTES = 16 * 1024;
/** onnxruntime lays the filters of a convolution out in blocks if their sizes are multiples of this. */
const BLOCK = 16;

/**
 * The weights that onnxruntime converts while it opens a model, and so no longer reads from the file: packed matrices, and filters
 * in blocks. Other weights would stay mapped, and writing to the file later would change results or crash the process.
 *
 * @returns Initializers with four bytes per element; whether their bytes lie in the file in one piece is not known here.
 */
function repackedWeights(rewrite: Rewrite, session: SessionOptions): ScannedTensor[] {
  const { cut, outputs } = rewrite;
  const { graphOptimizationLevel: level, extra } = session;
  // The user decides how weights are laid out.
  if (level === 'disabled' || /prepack|external_initializers/.test(JSON.stringify(extra))) return [];
  const isInBlocks = process.arch === 'x64' && (level === 'all' || level === 'layout');
  const given = new Set(outputs.map(({ value }) => value));
  return plainWeights(rewrite).flatMap(({ value, initializer }) => {
    // A weight that can be fed is not constant.
    if (value.input || value.producer || given.has(value)) return [];
    const uses = value.uses.filter((node) => cut.nodes.has(node));
    const [use, ...others] = uses;
    if (!use || others.length > 0 || !isItsWeight(value, use)) return [];
    return isRepacked(use, initializer, isInBlocks) ? [initializer] : [];
  });
}

/** Lists the float32 weights that are large enough to be read from the file. */
function plainWeights({
  cut,
  retyped,
}: Rewrite): { readonly value: Value; readonly initializer: ScannedTensor }[] {
  return [...cut.values].flatMap((value) => {
    const { initializer } = value;
    if (initializer?.elemType !== ELEMENT_TYPE.float32 || initializer.external || initializer.parts)
      return [];
    return retyped.has(initializer) || bytesOf(initializer) < LEAST_BYTES ? [] : [{ value, initializer }];
  });
}

function bytesOf({ dims }: ScannedTensor): number {
  return dims.reduce((product, size) => product * size, Float32Array.BYTES_PER_ELEMENT);
}

/** Whether a value is the second input of a node, and nothing else of it. */
function isItsWeight(value: Value, { inputs, scanned }: Node): boolean {
  const isOnce = inputs.filter((input) => input === value).length === 1;
  return inputs[1] === value && isOnce && scanned.bodies === undefined;
}

function isRepacked({ domain, opType, inputs }: Node, { dims }: ScannedTensor, isInBlocks: boolean): boolean {
  if (domain !== '') return false;
  if (opType === 'MatMul' || opType === 'Gemm') return dims.length === 2 && dims.every((size) => size > 1);
  if (opType !== 'Conv' || !isInBlocks || dims.length !== 4) return false;
  const [filters, channels] = dims as [number, number];
  return filters % BLOCK === 0 && channels % BLOCK === 0 && inputs.length <= 3;
}
