/** torchvision's networks as ONNX models, without Python. */
import { invalidOption, isText, type Options } from '../base/checks.js';
import { integer, optional, readOptions, type Fields } from '../base/options.js';
import { TapirError } from '../base/errors.js';
import { openModel, type OnnxModel } from '../model/open/open-model.js';
import { mapAtOnce } from '../parameters/match/map-at-once.js';
import type { StateSource } from '../parameters/dicts/write-state-dict.js';
import { chunkBytes, sizeOf } from '../onnx/wire/chunk.js';
import { ELEMENT_BITS, ELEMENT_TYPE } from '../onnx/wire/schema.js';
import { writeModelPieces } from '../onnx/wire/write-model.js';
import { elementCount } from '../tensor/tensor.js';
import { findArchitecture } from './architectures.js';
import { matchWeights, type Load } from './match-weights.js';
import type { Architecture } from '../networks/architecture.js';
import { Module } from '../networks/module.js';
import { Network, isComputed, type Parameter } from '../networks/network.js';
import { startValues } from './start-values.js';

/** Options of {@link createModel}. */
export interface CreateOptions {
  /**
   * The weights: a file that {@link readStateDict} reads, what it gives, or a `Map` of tensors. Left out, the network is not trained.
   * @default undefined
   */
  readonly weights: string | URL | StateSource | undefined;
  /**
   * The number of classes. If `weights` have another number, the classifier starts from scratch; left out, they must have 1000.
   * @default undefined, which is 1000
   */
  readonly numClasses: number | undefined;
  /**
   * Chooses the values of parameters that come from no file.
   * @default 0
   */
  readonly seed: number;
  /**
   * Height and width of the image. The parameters of transformers depend on it (224 unless given); other networks leave height and
   * width open unless it is given.
   * @default undefined
   */
  readonly imageSize: number | undefined;
  /**
   * The version of ONNX's operator set, 17 to 20.
   * @default 17
   */
  readonly opset: number;
}

const CLASSES = 1000;
/** Versions of the file format by those of the operator set. */
const IR_VERSIONS: ReadonlyMap<number, number> = new Map([
  [17, 8],
  [18, 8],
  [19, 9],
  [20, 9],
]);

export const CREATE_FIELDS: Fields<CreateOptions> = {
  weights: optional(checkWeights),
  numClasses: optional(
    integer(1, 1_000_000, CLASSES, 'number of classes; a classifier of another size starts from scratch'),
  ),
  seed: integer(0, 2 ** 32 - 1, 0, 'chooses the numbers of an untrained network'),
  imageSize: optional(integer(1, 65_536, 224, 'height and width of the image')),
  opset: integer(
    Math.min(...IR_VERSIONS.keys()),
    Math.max(...IR_VERSIONS.keys()),
    17,
    'version of the operator set',
  ),
};
/** The largest protobuf message, and so the largest ONNX file. */
const LIMIT_BYTES = 2 ** 31 - 1;

/** The values of a parameter, which are read when the model is laid out. */
interface Values {
  readonly start: 0;
  readonly end: number;
  readonly load: Load;
}

/**
 * Builds one of torchvision's classification networks as an ONNX model.
 *
 * Initializers are named by the keys of torchvision's state dict, and nothing is folded or merged. Every name that torchvision's
 * `get_graph_node_names` lists for evaluation and that holds one tensor can be requested; of `chunk`, which gives several, its parts.
 *
 * @param name - torchvision's name of the network; {@link listModels} lists them.
 * @param given - See {@link CreateOptions}.
 * @returns A model in memory, as {@link openModel} gives it: input `input` `[batch, 3, height, width]`, output `output`
 * `[batch, classes]` (logits), float32.
 *
 * @remarks The keys of `weights` must be those of torchvision; `module.` before all of them, keys of older releases and those that only
 * training uses are understood. float16, bfloat16 and float64 become float32. The model is in memory; its weights are read into their places, a few at a time.
 * Images are expected as torchvision's weights expect them. GoogLeNet and Inception v3 were trained with a mean and deviation of 0.5,
 * and torchvision converts their input: use a transform with `mean: 0.5, std: 0.5`.
 * Without weights, equal seeds give equal bytes; the numbers are scaled so that activations keep a sane size.
 *
 * @throws {@link TapirError} `NAME_NOT_FOUND` with the nearest names; `STATE_MISMATCH` with the keys that are missing, unexpected or
 * of other dims; `STATE_INVALID`; `MODEL_TOO_LARGE` for more than 2 GiB; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { pruneModel } from 'onnx-tapir';
 * import { createModel } from 'onnx-tapir/zoo';
 *
 * const model = await createModel('resnet50', { weights: 'resnet50.pth' });
 * const features = await pruneModel(model, { 'layer4.2.relu_2': 'map', flatten: 'vector' });
 * await features.save('features.onnx');
 * ```
 */
export async function createModel(name: string, given: Options<CreateOptions> = {}): Promise<OnnxModel> {
  const architecture = findArchitecture(name);
  const { weights, numClasses, seed, imageSize, opset } = checkOptions(architecture, given);
  const network = new Network(opset);
  const output = architecture.write(
    new Module(network),
    { name: 'input', channels: 3 },
    { classes: numClasses ?? CLASSES, imageSize: imageSize ?? 0 },
  );
  network.rename('output');
  const loads =
    weights === undefined
      ? new Map<string, Load>()
      : await matchWeights(network.parameters, weights, name, architecture, numClasses !== undefined);
  const valuesOf = (parameter: Parameter): Values => ({
    start: 0,
    end: (elementCount(parameter.dims) * ELEMENT_BITS.get(parameter.elemType)!) / 8,
    load: loads.get(parameter.key) ?? (() => Promise.resolve(startValues(parameter, seed))),
  });
  const elemType = ELEMENT_TYPE.float32;
  const image = imageSize === undefined ? ['height', 'width'] : [imageSize, imageSize];
  const pieces = writeModelPieces<Values>({
    irVersion: IR_VERSIONS.get(opset)!,
    opset,
    producer: 'onnx-tapir',
    description: describe(name, network, loads),
    name,
    nodes: network.nodes,
    tensors: Array.from(network.parameters.values(), (parameter) => ({
      name: parameter.key,
      elemType: parameter.elemType,
      dims: parameter.dims,
      data: valuesOf(parameter),
    })),
    inputs: [{ name: 'input', elemType, dims: ['batch', 3, ...image] }],
    outputs: [{ name: 'output', elemType, dims: ['batch', output.channels] }],
  });
  return openModel(await fill(name, pieces));
}

function checkOptions(architecture: Architecture, given: Options<CreateOptions>): CreateOptions {
  const options = readOptions(CREATE_FIELDS, given, 'createModel');
  const { imageSize = architecture.imageSize } = options;
  const { multipleOf = 1 } = architecture;
  if (imageSize !== undefined && imageSize % multipleOf !== 0)
    throw invalidOption('imageSize', `a multiple of ${multipleOf} for this network`, imageSize);
  return { ...options, imageSize };
}

function checkWeights(option: string, value: unknown): string | URL | StateSource {
  if (isText(value) || value instanceof URL || (value instanceof Map && value.size > 0)) return value;
  throw invalidOption(option, 'a path, a file: URL, or a Map of tensors', value);
}

/** The text in the file that says where its weights come from. */
function describe(name: string, { parameters }: Network, loads: ReadonlyMap<string, Load>): string {
  if (loads.size === 0)
    return `${name} with seeded random weights: untrained, for wiring and speed, not for meaning.`;
  const fresh = [...parameters.values()].filter(
    (parameter) => !loads.has(parameter.key) && !isComputed(parameter),
  );
  if (fresh.length === 0) return name;
  return `${name}; seeded random numbers, untrained: ${fresh.map(({ key }) => key).join(', ')}.`;
}

/** Parameters that are read at a time: their file then stays open. */
const AT_ONCE = 8;

/** Lays the pieces out in memory; only the parameters that are being read are there twice. */
async function fill(name: string, pieces: readonly (Uint8Array | Values)[]): Promise<Uint8Array> {
  const bytes = sizeOf(pieces);
  if (bytes > LIMIT_BYTES)
    throw new TapirError(
      'MODEL_TOO_LARGE',
      `${name} would have ${bytes} bytes, and an ONNX file holds at most ${LIMIT_BYTES}; choose a smaller network`,
      { details: { path: name, bytes, limitBytes: LIMIT_BYTES } },
    );
  const model = new Uint8Array(bytes);
  const reads: { readonly at: number; readonly load: Load }[] = [];
  let at = 0;
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) model.set(piece, at);
    else reads.push({ at, load: piece.load });
    at += chunkBytes(piece);
  }
  await mapAtOnce(reads, AT_ONCE, async ({ at: start, load }) => model.set(await load(), start));
  return model;
}
