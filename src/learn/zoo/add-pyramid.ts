/** torchvision's FeaturePyramidNetwork on the levels of any model. */
import { invalidOption, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { integer, optional, readOptions, type Check, type Fields } from '../../base/options.js';
import { opsetOf } from '../../onnx/graph/operator-sets.js';
import { tensorType } from '../../onnx/graph/graph.js';
import { provenLayout } from '../../onnx/graph/layout.js';
import type { Rewrite, RewriteOutput } from '../../onnx/graph/rewrite/rewrite.js';
import { encodeValues } from '../../run/model/open/encode-values.js';
import { readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import { readReturnNodes, type ReturnNodes } from '../../run/model/open/return-nodes.js';
import { pruneModel } from '../../run/model/oracle/prune-model.js';
import { deriveRewritten } from '../../run/model/prune/derive-rewritten.js';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import { Module } from '../../onnx/networks/module.js';
import { Network, type Value } from '../../onnx/networks/network.js';
import { levelKeys, renamePyramidKey, writePyramid, type ExtraLevels } from '../../onnx/networks/pyramid.js';
import { ELEMENT_TYPE, elementTypeName, type Dim } from '../../onnx/file/wire/schema.js';
import type { NewNode, NewTensor } from '../../onnx/file/wire/write-model.js';
import type { StateSource } from '../parameters/dicts/write-state-dict.js';
import type { StateValue } from '../parameters/folding/state-value.js';
import { makeTensor } from '../../onnx/tensor/tensor.js';
import { checkWeights, matchWeights, readWeights } from './match-weights.js';
import { startValues } from './start-values.js';

/** Options of {@link addPyramid}. */
export interface PyramidOptions {
  /**
   * Channels of all levels.
   * @default 256
   */
  readonly outChannels: number;
  /**
   * Levels after the last: `'pool'` is every second pixel of it (torchvision's LastLevelMaxPool, output `pool`); `'p6p7'` two convolutions
   * of stride 2 (LastLevelP6P7, outputs `p6` and `p7`).
   * @default undefined
   */
  readonly extra: ExtraLevels | undefined;
  /**
   * The weights: a file that {@link readStateDict} reads, what it gives, or a `Map` of tensors, with the keys of a FeaturePyramidNetwork
   * (`inner_blocks.0.0.weight`). With those of norms (`inner_blocks.0.1.weight`), it has norms. Left out, the pyramid is not trained.
   * @default undefined
   */
  readonly state: string | URL | StateSource | undefined;
  /**
   * Chooses the values of parameters that come from no file.
   * @default 0
   */
  readonly seed: number;
}

const checkExtra: Check<ExtraLevels> = (option, value) => {
  if (value === 'pool' || value === 'p6p7') return value;
  throw invalidOption(option, '"pool", "p6p7", or undefined', value);
};

const PYRAMID_FIELDS: Fields<PyramidOptions> = {
  outChannels: integer(1, 65_536, 256, 'channels of all levels'),
  extra: optional(checkExtra),
  state: optional(checkWeights),
  seed: integer(0, 2 ** 32 - 1, 0, 'chooses the numbers of an untrained pyramid'),
};

/** Since this operator set, Resize takes sizes alone. */
const NEEDED_OPSET = 13;
/** Element types of the levels and the weights. */
const TYPES: ReadonlySet<number> = new Set([ELEMENT_TYPE.float32, ELEMENT_TYPE.float16]);
/** Where the pyramid's nodes and weights lie. */
const PATH = 'fpn';

/**
 * Puts torchvision's FeaturePyramidNetwork on the levels of a model: what its documentation shows on top of `create_feature_extractor`.
 *
 * @remarks The model is cut to what the levels need, and all kept bytes are its own; nodes and weights under `fpn.` are added after them.
 * The weights have the levels' float type. Each coarser level is enlarged to the next finer one's size, whatever the sizes are.
 *
 * @param model - A model, or where to open one.
 * @param levels - Names of feature maps `[N, C, H, W]`, from the finest to the coarsest, mapped to the keys of the levels.
 * @param given - See {@link PyramidOptions}.
 * @returns A model with the inputs that the levels need, and an output `[N, outChannels, H, W]` per level under its key, then those of
 * `extra`.
 * @throws {@link TapirError} `OUTPUT_MISFIT` for a level without four axes or of unknown channels, or an operator set before 13;
 * `STATE_MISMATCH` with the keys that are missing, unexpected or of other dims; `STATE_INVALID`; `OPTION_INVALID`; those of
 * {@link pruneModel}.
 *
 * @example
 * ```ts
 * import { addPyramid, createModel } from 'onnx-tapir/zoo';
 *
 * const resnet = await createModel('resnet50', { weights: 'resnet50.pth' });
 * const levels = { layer1: '0', layer2: '1', layer3: '2', layer4: '3' };
 * const pyramid = await addPyramid(resnet, levels, { extra: 'pool', state: 'fpn.safetensors' });
 * console.log(pyramid.outputs.map(({ name }) => name)); // ['0', '1', '2', '3', 'pool']
 * await pyramid.save('resnet50-fpn.onnx');
 * ```
 */
export async function addPyramid(
  model: OnnxModel | ModelSource,
  levels: ReturnNodes,
  given: Options<PyramidOptions> = {},
): Promise<OnnxModel> {
  const { outChannels, extra, state, seed } = readOptions(PYRAMID_FIELDS, given, 'addPyramid');
  const opened = readModel(model);
  const requests = readReturnNodes(levels).pairs.map(({ request, key }) => [request, key] as const);
  const { rewrite } = prunedInternals.of(await pruneModel(opened, requests));
  const { elemType, maps } = checkLevels(rewrite);
  const weights = state === undefined ? undefined : await readWeights(state, { renameKey: renamePyramidKey });
  const network = new Network(opsetOf(rewrite.cut.graph));
  const written = writePyramid(new Module(network, PATH), maps, {
    channels: outChannels,
    hasNorms: weights?.has('inner_blocks.0.1.weight') ?? false,
    extra,
    isP6OfPyramid: (channelsOfP6(weights) ?? maps.at(-1)!.channels) === outChannels,
  });
  const tensors = await fillParameters(network, weights, seed, elemType);
  const keys = levelKeys(
    rewrite.outputs.map(({ key }) => key),
    extra,
  );
  const pyramid = withNetwork(rewrite, network.nodes, tensors, (nameOf) =>
    keys.map((key, at): RewriteOutput => {
      const map = rewrite.outputs[at] ?? rewrite.outputs.at(-1)!;
      const [batch] = maps[0]!.dims as [Dim];
      const dims = [batch, outChannels, ...(maps[at]?.dims.slice(2) ?? [null, null])];
      const { request, value, why } = map;
      const tensor = nameOf(written[at]!.name);
      return {
        request,
        value,
        why,
        key,
        tensor,
        type: { elemType, dims },
        layout: 'NCHW',
        tokens: null,
        computed: ['pyramid'],
      };
    }),
  );
  return deriveRewritten(opened, pyramid, 'keys');
}

/** Adds nodes and weights after all others, under names that are free, and other outputs in place of those that are there. */
function withNetwork(
  rewrite: Rewrite,
  nodes: readonly NewNode[],
  tensors: readonly NewTensor[],
  outputsOf: (nameOf: (tensor: string) => string) => readonly RewriteOutput[],
): Rewrite {
  const names = new Map<string, string>([['', '']]);
  for (const { name } of tensors) names.set(name, rewrite.names.take(name));
  for (const { outputs } of nodes) for (const name of outputs) names.set(name, rewrite.names.take(name));
  const nameOf = (tensor: string): string => names.get(tensor) ?? tensor;
  const added = nodes.map((node) => ({
    ...node,
    name: rewrite.names.take(node.name),
    inputs: node.inputs.map(nameOf),
    outputs: node.outputs.map(nameOf),
  }));
  return {
    ...rewrite,
    outputs: outputsOf(nameOf),
    back: [...rewrite.back, ...added],
    tensors: [...rewrite.tensors, ...tensors.map((tensor) => ({ ...tensor, name: nameOf(tensor.name) }))],
  };
}

/** The channels that the weights of `p6` read: torchvision takes the pyramid's last level if they are as many as it gives. */
function channelsOfP6(weights: ReadonlyMap<string, StateValue> | undefined): number | undefined {
  return weights?.get('extra_blocks.p6.weight')?.dims[1];
}

/** A level's feature map. */
interface Level extends Value {
  readonly dims: readonly Dim[];
}

/** Refuses levels that are no feature maps. Returns them, and their element type. */
function checkLevels({ outputs, cut }: Rewrite): {
  readonly elemType: number;
  readonly maps: readonly Level[];
} {
  const opset = opsetOf(cut.graph);
  const [first] = outputs;
  if (!first) throw invalidOption('levels', 'at least one level', {});
  if (opset < NEEDED_OPSET)
    throw misfit(
      first,
      `of operator set ${opset}`,
      `a pyramid needs operator set ${NEEDED_OPSET}; export the model again`,
    );
  const types = outputs.map((output) => output.type ?? tensorType(output.value));
  const elemType = types[0]?.elemType ?? 0;
  const maps = outputs.map((output, at): Level => {
    const dims = types[at]?.dims;
    if (!dims) throw misfit(output, 'of unknown dims', 'a level of a pyramid is a feature map [N, C, H, W]');
    const actual = `${elementTypeName(types[at]!.elemType)} [${dims.map((dim) => dim ?? '?').join(', ')}]`;
    if (dims.length !== 4 || provenLayout(cut.graph, output.value, dims) === 'NHWC')
      throw misfit(output, actual, 'a level of a pyramid is a feature map [N, C, H, W]');
    const [, channels] = dims;
    if (typeof channels !== 'number')
      throw misfit(output, actual, 'the number of its channels must be known');
    if (!TYPES.has(elemType) || types[at]!.elemType !== elemType)
      throw misfit(output, actual, 'all levels must be float32, or all float16');
    return { name: output.tensor, channels, dims };
  });
  return { elemType, maps };
}

function misfit({ request }: RewriteOutput, actual: string, reason: string): TapirError<'OUTPUT_MISFIT'> {
  return new TapirError('OUTPUT_MISFIT', `"${request}" is ${actual}, but ${reason}`, {
    details: { output: request, actual, reason },
  });
}

/** The parameters of a network with their values, in a float type. */
async function fillParameters(
  { parameters }: Network,
  weights: ReadonlyMap<string, StateValue> | undefined,
  seed: number,
  elemType: number,
): Promise<NewTensor[]> {
  const bare = new Map(
    Array.from(parameters.values(), (parameter) => {
      const key = parameter.key.slice(PATH.length + 1);
      return [key, { ...parameter, key }];
    }),
  );
  const loads =
    weights &&
    matchWeights(bare, weights, {
      subject: 'the pyramid',
      mayChangeHead: false,
      advice: () =>
        'give the weights of a FeaturePyramidNetwork on these levels, with its outChannels and extra',
    });
  return Promise.all(
    Array.from(bare, async ([key, parameter]) => {
      const start = (): Uint8Array => startValues(parameter, seed);
      const { dims } = parameter;
      const bytes = await (loads?.get(key) ?? start)();
      const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      const data = encodeValues(makeTensor('float32', dims, values), elemType, null);
      return { name: `${PATH}.${key}`, elemType, dims, data };
    }),
  );
}
