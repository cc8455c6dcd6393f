/** torchvision's networks as ONNX models, without Python. */
import { invalidOption, type Options } from '../../base/checks.js';
import { boolean, integer, number, optional, readOptions, type Fields } from '../../base/options.js';
import { TapirError } from '../../base/errors.js';
import { openModel, type OnnxModel } from '../../run/model/open/open-model.js';
import { mapAtOnce } from '../parameters/match/map-at-once.js';
import type { StateSource } from '../parameters/dicts/write-state-dict.js';
import { chunkBytes, sizeOf } from '../../onnx/file/wire/chunk.js';
import { ELEMENT_BITS, ELEMENT_TYPE, type Dim } from '../../onnx/file/wire/schema.js';
import { writeModelPieces } from '../../onnx/file/wire/write-model.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import { findArchitecture, taskOf } from './architectures.js';
import {
  adviceFor,
  checkWeights,
  describeReplaced,
  matchWeights,
  readWeights,
  type Load,
} from './match-weights.js';
import { IMAGENET_CLASSES, type Architecture, type NetworkOutput } from '../../onnx/networks/architecture.js';
import { COUNTER } from '../../onnx/networks/families/recognise-network.js';
import { Module } from '../../onnx/networks/module.js';
import { Network, isComputed, type Parameter } from '../../onnx/networks/network.js';
import { startValues } from './start-values.js';

/** Options of {@link createModel}. */
export interface CreateOptions {
  /**
   * The weights: a file that {@link readStateDict} reads, what it gives, or a `Map` of tensors. Left out, the network is not trained.
   * @default undefined
   */
  readonly weights: string | URL | StateSource | undefined;
  /**
   * The number of classes. If `weights` have another number, the classifier starts from scratch; left out, they must have that of
   * torchvision's weights: 1000, 21 for segmentation, 91 for detection, 400 for video.
   * @default undefined, which is that of torchvision's weights
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
  /**
   * Whether a segmentation network has its auxiliary classifier, and the output `aux`. Left out, it has if `weights` have its keys.
   * @default undefined
   */
  readonly auxLoss: boolean | undefined;
  /**
   * The epsilon of a detector's frozen norms, which no file of weights tells. In torchvision, `COCO_V1` of Faster, Mask and Keypoint R-CNN
   * and RetinaNet with ResNet-50 (v1) have 0, all others 1e-5. Left out, it is decided by name and number of classes where these prove it.
   * @default undefined
   */
  readonly normEps: number | undefined;
}

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
    integer(
      1,
      1_000_000,
      IMAGENET_CLASSES,
      'number of classes; if the weights have another number, the classifier starts from scratch',
    ),
  ),
  seed: integer(0, 2 ** 32 - 1, 0, 'chooses the numbers of an untrained network'),
  imageSize: optional(integer(1, 65_536, 224, 'height and width of the image')),
  opset: integer(
    Math.min(...IR_VERSIONS.keys()),
    Math.max(...IR_VERSIONS.keys()),
    17,
    'version of the operator set',
  ),
  auxLoss: optional(boolean(false, 'the auxiliary classifier of a segmentation network')),
  normEps: optional(number(0, 1, 1e-5, 'epsilon of a detector’s frozen norms')),
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
 * Builds one of torchvision's networks of classification, segmentation, detection or video as an ONNX model.
 *
 * Initializers are named by the keys of torchvision's state dict, and nothing is folded or merged. Every name that torchvision's
 * `get_graph_node_names` lists for evaluation and that holds one tensor can be requested; of `chunk`, which gives several, its parts.
 *
 * @param name - torchvision's name of the network; {@link listModels} lists them.
 * @param given - See {@link CreateOptions}.
 * @returns A model in memory, as {@link openModel} gives it, float32. Its input is `input` `[batch, 3, height, width]`, of a video
 * network `[batch, 3, frames, height, width]`. A classifier's output is `output` `[batch, classes]` (logits), a segmentation network's
 * are `out` and, with `auxLoss`, `aux` `[batch, classes, height, width]` (logits). Of a detector, the graph is the backbone, its pyramid and the
 * dense heads: outputs are the pyramid's levels (`0`, …, `pool`), then what the heads give under torchvision's names.
 *
 * @remarks The keys of `weights` must be those of torchvision. Keys of older releases, those that only training uses, and `module.` before
 * all keys are understood. float16, bfloat16 and float64 become float32. The model is in memory; its weights are read into their places, a
 * few at a time. Images are expected as torchvision's weights expect them. GoogLeNet and Inception v3 were trained with a mean and
 * deviation of 0.5, and torchvision converts their input: use a transform with `mean: 0.5, std: 0.5`. Anchors, suppression of overlaps and
 * heads of regions are not part of a detector's graph: for boxes, cut an exported detector. Keys of weights that the graph does not use are
 * named in the file's description. Without weights, equal seeds give equal bytes; the numbers are scaled so that activations keep a sane
 * size.
 *
 * @throws {@link TapirError} `NAME_NOT_FOUND` with the nearest names; `STATE_MISMATCH` with the keys that are missing, unexpected or
 * of other dims; `STATE_AMBIGUOUS` if nothing proves `normEps`; `STATE_INVALID`; `MODEL_TOO_LARGE` for more than 2 GiB; `OPTION_INVALID`.
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
  return (await createWithNotes(name, given)).model;
}

/** A model, and of each classifier that `weights` have in another size what it is now. Throws as {@link createModel}. */
export async function createWithNotes(
  name: string,
  given: Options<CreateOptions>,
): Promise<{ readonly model: OnnxModel; readonly notes: readonly string[] }> {
  const architecture = findArchitecture(name);
  const options = checkOptions(architecture, given);
  const { numClasses, seed, imageSize, opset, auxLoss, normEps } = options;
  const weights =
    options.weights === undefined ? undefined : await readWeights(options.weights, architecture);
  const classes = numClasses ?? architecture.classes ?? IMAGENET_CLASSES;
  const network = new Network(opset);
  const sizes = { classes, imageSize: imageSize ?? 0, auxLoss, normEps, weights };
  const written = architecture.write(new Module(network), { name: 'input', channels: 3 }, sizes);
  const outputs = nameOutputs(network, written);
  const loads: ReadonlyMap<string, Load> =
    weights === undefined
      ? new Map()
      : matchWeights(network.parameters, weights, {
          ...architecture,
          subject: name,
          mayChangeHead: numClasses !== undefined,
          advice: (misfits) => adviceFor(misfits, network.parameters, weights, classes),
        });
  const valuesOf = (parameter: Parameter): Values => ({
    start: 0,
    end: (elementCount(parameter.dims) * ELEMENT_BITS.get(parameter.elemType)!) / 8,
    load: loads.get(parameter.key) ?? (() => Promise.resolve(startValues(parameter, seed))),
  });
  const elemType = ELEMENT_TYPE.float32;
  const pieces = writeModelPieces<Values>({
    irVersion: IR_VERSIONS.get(opset)!,
    opset,
    producer: 'onnx-tapir',
    description: describe(name, network, loads, weights?.keys() ?? []),
    name,
    nodes: network.nodes,
    tensors: Array.from(network.parameters.values(), (parameter) => ({
      name: parameter.key,
      elemType: parameter.elemType,
      dims: parameter.dims,
      data: valuesOf(parameter),
    })),
    inputs: [{ name: 'input', elemType, dims: inputDims(architecture, imageSize) }],
    outputs: outputs.map(({ key, dims }) => ({ name: key, elemType, dims })),
  });
  const notes = weights ? describeReplaced(network.parameters, weights, loads) : [];
  return { model: await openModel(await fill(name, pieces)), notes };
}

/** The outputs under their names in the file: a classifier's last tensor is renamed, others keep their own names as well. */
function nameOutputs(network: Network, written: ReturnType<Architecture['write']>): readonly NetworkOutput[] {
  if (!('length' in written)) {
    network.rename('output');
    return [{ key: 'output', tensor: 'output', dims: ['batch', written.channels] }];
  }
  for (const { key, tensor } of written) {
    network.node('', 'Identity', [tensor], {});
    network.rename(key);
  }
  return written;
}

function inputDims({ task, frames }: Architecture, imageSize: number | undefined): Dim[] {
  const image: Dim[] = imageSize === undefined ? ['height', 'width'] : [imageSize, imageSize];
  const clip: Dim[] = task === 'video' ? [frames ?? 'frames'] : [];
  return ['batch', 3, ...clip, ...image];
}

function checkOptions(architecture: Architecture, given: Options<CreateOptions>): CreateOptions {
  if (taskOf(architecture) === 'detection') refuseBoxes(given);
  const options = readOptions(CREATE_FIELDS, given, 'createModel');
  const { imageSize = architecture.imageSize } = options;
  const { multipleOf = 1, isFixedSize } = architecture;
  const task = taskOf(architecture);
  if (isFixedSize && imageSize !== architecture.imageSize)
    throw invalidOption('imageSize', `${architecture.imageSize} for this network`, imageSize);
  if (imageSize !== undefined && imageSize % multipleOf !== 0)
    throw invalidOption('imageSize', `a multiple of ${multipleOf} for this network`, imageSize);
  for (const [option, tasks] of [
    ['auxLoss', 'segmentation'],
    ['normEps', 'detection'],
  ] as const)
    if (options[option] !== undefined && task !== tasks)
      throw invalidOption(
        option,
        `undefined for a network of ${task}; it is for networks of ${tasks}`,
        options[option],
      );
  return { ...options, imageSize };
}

/** What torchvision's detectors call boxes, and what they are made with. */
const OF_BOXES = /anchor|box|detection|keypoint|label|mask|nms|proposal|roi|rpn|score/i;

/** Says to who asks a detector for boxes what to do. Throws `OPTION_INVALID`. */
function refuseBoxes(given: object): void {
  for (const [name, value] of Object.entries(given))
    if (!(name in CREATE_FIELDS) && OF_BOXES.test(name))
      throw invalidOption(
        name,
        'left out: the network ends in raw outputs of dense heads; anchors, NMS and RoI heads are not part of it. For boxes, export the detector with torch.onnx and cut that file instead',
        value,
      );
}

/** The text in the file that says where its weights come from, and which keys of the state dict it does not use. */
function describe(
  name: string,
  { parameters }: Network,
  loads: ReadonlyMap<string, Load>,
  keys: Iterable<string>,
): string {
  if (loads.size === 0)
    return `${name} with seeded random weights: untrained, for wiring and speed, not for meaning.`;
  const fresh = [...parameters.values()].filter(
    (parameter) => !loads.has(parameter.key) && !isComputed(parameter),
  );
  const unused = [...keys].filter((key) => !parameters.has(key) && !COUNTER.test(key));
  const parts = [
    ['seeded random numbers, untrained', fresh.map(({ key }) => key)],
    ['not used', unused],
  ] as const;
  const sentences = parts.flatMap(([what, list]) =>
    list.length > 0 ? `; ${what}: ${list.join(', ')}.` : [],
  );
  return name + sentences.join('');
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
