/** The norms of a model, with their names, momentum and present statistics. */
import { TapirError } from '../../../base/errors.js';
import { tensorType, type Graph, type Node } from '../../../onnx/graph/graph.js';
import { findParameters, moduleOf } from '../../../onnx/graph/parameters/find-parameters.js';
import { siteOf } from '../../../onnx/graph/parameters/site.js';
import { describeNode } from '../../../onnx/graph/rewrite/prune.js';
import { MEAN_SLOT, VARIANCE_SLOT, type Norm } from '../../../onnx/graph/rewrite/norm-statistics.js';
import { toFloat64 } from '../../../run/model/open/encode-values.js';
import { modelInternals, type ModelState } from '../../../run/model/open/model-state.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { readInitializer } from '../../../run/model/open/read-initializer.js';
import { readAttributes } from '../../../onnx/file/scan/attributes.js';
import { operatorKey } from '../../../onnx/file/scan/scan-body.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import type { ChannelMoments, ChannelStatistics } from './channel-moments.js';

/** A norm with what torch keeps beside its parameters. */
export interface NormLayer extends Norm {
  /** Its path in the source network, else the name of its node. Unique in a model. */
  readonly name: string;
  /** The weight of the latest batch, in torch's sense. */
  readonly momentum: number;
  /** Reads the statistics that the model has now. */
  readonly readStatistics: () => Promise<ChannelStatistics>;
}

/** Moments by norm of rows that were normalised together. */
export type NormMoments = ReadonlyMap<NormLayer, ChannelMoments>;

/** torch's default; ONNX's is 1 minus it. */
export const MOMENTUM = 0.1;
const SCALE_SLOT = 1;
const NORM = operatorKey({ domain: '', opType: 'BatchNormalization', overload: '' });
/** ONNX has momentum as float32: 1 − 0.97 is 0.03, not 0.0299999714. */
const DIGITS = 6;

/**
 * The BatchNormalization nodes of a model in execution order.
 *
 * @throws {@link TapirError} `NORMS_UNAVAILABLE` for norms that cannot be estimated: in training mode, inside bodies or functions, with a
 * statistic for each position.
 */
export async function listNormNodes(model: OnnxModel): Promise<NormLayer[]> {
  const state = modelInternals.of(model);
  const { graph } = state;
  const inside = findInside(graph);
  if (inside !== undefined)
    throw unavailable(`a BatchNorm is inside ${inside}`, 'inline it first (onnx.inliner)', [inside]);
  const fixed = await readFixedNorms(state);
  return fixed.map(({ node, name, attributes }) => {
    const momentum = attributes.get('momentum')?.float ?? 1 - MOMENTUM;
    return Object.assign(readNorm(node, name), {
      name,
      momentum: Number((1 - momentum).toPrecision(DIGITS)),
      readStatistics: () => readStatistics(state, node, name),
    });
  });
}

/** Checks that norms take their statistics from the file, not from the batch. Throws `NORMS_UNAVAILABLE` for one in training mode. */
export async function checkFixedNorms(model: OnnxModel): Promise<void> {
  await readFixedNorms(modelInternals.of(model));
}

/** The nodes of norms with their names and attributes. Throws `NORMS_UNAVAILABLE` for one in training mode. */
function readFixedNorms({ graph, withSource }: ModelState) {
  const nodes = graph.nodes.filter(({ domain, opType }) => domain === '' && opType === 'BatchNormalization');
  const names = namesOf(graph, nodes);
  return withSource((source) => {
    const reader = new WireReader(source);
    return nodes.map((node) => {
      const name = names.get(node)!;
      const attributes = readAttributes(reader, node.scanned);
      if (attributes.get('training_mode')?.int === 1 || node.outputs.length !== 1)
        throw unavailable(`"${name}" is in training mode`, 'export the model after model.eval()', [name]);
      return { node, name, attributes };
    });
  });
}

/** `NORMS_UNAVAILABLE`. */
export function unavailable(
  reason: string,
  remedy: string,
  layers: readonly string[],
): TapirError<'NORMS_UNAVAILABLE'> {
  return new TapirError(
    'NORMS_UNAVAILABLE',
    `BatchNorm statistics cannot be estimated: ${reason}; ${remedy}`,
    { details: { reason, layers } },
  );
}

function readNorm(node: Node, name: string): Norm {
  const [input] = node.inputs;
  const statistics = [MEAN_SLOT, SCALE_SLOT].flatMap(
    (slot) => siteOf(node, slot)?.initializer.initializer ?? [],
  );
  const dims = statistics[0]?.dims ?? [];
  const channels = dims[0] ?? (input && tensorType(input)?.dims?.[1]);
  const isPlain = dims.length <= 1 && typeof channels === 'number';
  if (!input || !isPlain)
    throw unavailable(`the channels of "${name}" are not known`, 'export the model again', [name]);
  const mean = node.inputs[MEAN_SLOT];
  const elemType = statistics[0]?.elemType ?? (mean && tensorType(mean)?.elemType) ?? ELEMENT_TYPE.float32;
  return { node, input, channels, elemType, added: undefined };
}

async function readStatistics(state: ModelState, node: Node, name: string): Promise<ChannelStatistics> {
  const read = async (slot: number): Promise<Float64Array> => {
    const tensor = siteOf(node, slot)?.initializer.initializer;
    if (tensor) return toFloat64(await readInitializer(state, tensor));
    throw unavailable(`the statistics of "${name}" are computed`, 'choose momentum "cumulative" or 1', [
      name,
    ]);
  };
  return { mean: await read(MEAN_SLOT), variance: await read(VARIANCE_SLOT) };
}

/**
 * Names of norms: the path in the source network, else the node's name. Where statistics were merged, only the first norm goes by their
 * name. A norm that runs twice gets a number.
 */
function namesOf(graph: Graph, nodes: readonly Node[]): ReadonlyMap<Node, string> {
  const owners = new Map<string, Node>();
  for (const { node, names } of findParameters(graph).uses) {
    const path = /^(.+)\.running_mean$/.exec(names[0]!)?.[1];
    if (path !== undefined && !owners.has(path)) owners.set(path, node);
  }
  const paths = new Map([...owners].map(([path, node]) => [node, path]));
  const names = uniqueNames(nodes.map((node) => paths.get(node) ?? moduleOf(node) ?? describeNode(node)));
  return new Map(names.map((name, i) => [nodes[i]!, name]));
}

/** Names with a number where one repeats. */
export function uniqueNames(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((wanted) => {
    let name = wanted;
    for (let k = 1; taken.has(name); k++) name = `${wanted}_${k}`;
    taken.add(name);
    return name;
  });
}

/** Where a norm is hidden from the main graph. */
function findInside(graph: Graph): string | undefined {
  const node = graph.nodes.find(({ scanned }) => scanned.bodies?.operators.has(NORM));
  if (node) return `a body of ${node.opType} "${node.name}"`;
  const fn = graph.model.functions.find(({ content }) => content.operators.has(NORM));
  return fn && `function "${fn.name}"`;
}
