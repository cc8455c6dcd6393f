/** What a model costs, node by node and module by module. */
import type { Options } from '../../base/checks.js';
import { groupBy } from '../../base/group-by.js';
import { boolean, integer, optional, readOptions, unchecked, type Fields } from '../../base/options.js';
import type { Graph, Node, Value } from '../../onnx/graph/graph.js';
import { moduleTree } from '../../onnx/graph/names/module-tree.js';
import { nameValues } from '../../onnx/graph/names/name-list.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { checkInputSizes, readInputSizes, type InputSizes } from '../../run/model/open/input-sizes.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import {
  measureCosts,
  sum,
  weighTensors,
  type ElementCounts,
  type NodeCosts,
} from '../../run/model/oracle/model-costs.js';
import { timeNodes } from '../../run/model/oracle/time-nodes.js';

/** Options of {@link profileModel}. */
export interface ProfileOptions {
  /**
   * Rows of the inputs, from 1 to 65,536. A model with a fixed batch takes no other.
   * @default the batch that the model fixes, otherwise 1
   */
  readonly batch: number | undefined;
  /**
   * Sizes of other open axes: one size for height and width of images, or sizes by the symbolic name of an axis and whole shapes by
   * the name of an input. Sizes that you leave out are searched for, from 224 for images and 8 for all other axes.
   * @default {}
   */
  readonly inputSizes: InputSizes;
  /**
   * Also time every node on the CPU.
   * @default false
   */
  readonly time: boolean;
  /**
   * Threads of a node that is timed, from 0 to 1024. With 0, ONNX Runtime chooses their number.
   * @default 0
   */
  readonly threads: number;
}

export const PROFILE_FIELDS: Fields<ProfileOptions> = {
  batch: optional(integer(1, 65_536, 1, 'rows of the inputs')),
  inputSizes: unchecked({}),
  time: boolean(false, 'also time each node on the CPU'),
  threads: integer(0, 1024, 0, 'threads of a node that is timed; 0 for all'),
};

/** What a part of a model costs in one run. */
export interface Cost extends ElementCounts {
  /**
   * Multiply-accumulates of matrix products, convolutions, attention and recurrent layers, as fvcore counts them. One is two floating-point
   * operations. null for a node that cannot be counted; a sum leaves such nodes out.
   */
  readonly macs: number | null;
  /** Bytes of the tensors in the file that it reads, each once. */
  readonly weightBytes: number;
  /** Bytes of all tensors that its nodes compute; not all of them exist at the same time. */
  readonly activationBytes: number;
  /**
   * The median time, without ONNX Runtime's optimisation. null without the option `time`, and for a call of a function, which ONNX
   * Runtime runs as other nodes; a sum leaves such nodes out.
   */
  readonly milliseconds: number | null;
}

/** What a node costs. */
export interface NodeCost extends Cost {
  /** A name to request its result by. */
  readonly name: string;
  /** The ONNX operator, prefixed with its domain unless that is the default one. */
  readonly op: string;
  /** The module of the source network that ran it, where the file carries module paths; else null. */
  readonly module: string | null;
}

/** What a module costs, with all modules in it. */
export interface ModuleCost extends Cost {
  /** Its path, such as `layer4.2`. */
  readonly name: string;
  /** Number of its nodes. */
  readonly nodes: number;
}

/** Nodes whose multiply-accumulates are not counted. */
export interface Uncounted {
  readonly op: string;
  /** Names of the nodes. */
  readonly nodes: readonly string[];
}

/** What {@link profileModel} gives. */
export interface ModelProfile {
  readonly batch: number;
  /** The inputs with the sizes that everything was measured at. */
  readonly inputs: readonly TensorInfo[];
  /** In execution order; without nodes that no output needs, and without constants. */
  readonly nodes: readonly NodeCost[];
  /** Each before its content; empty if the file carries no module paths. */
  readonly modules: readonly ModuleCost[];
  readonly total: Cost;
  /** Operators without a rule: control flow, functions of the file, custom operators; and nodes of unknown sizes. */
  readonly uncounted: readonly Uncounted[];
}

/** Costs of a node before they are added up. */
interface Measured extends NodeCosts {
  readonly milliseconds: number | undefined;
}

/**
 * Measures what a model costs: multiply-accumulates, parameters, bytes of weights and activations, and time on the CPU if you ask for
 * it, for each node and each module.
 *
 * @remarks Counts come from the sizes of tensors. Where ONNX Runtime cannot infer them, the model runs once on made-up inputs. Times
 * come from ONNX Runtime's profiler with optimisation off, because it times a fused node as a whole. Compare nodes by these
 * times; their sum is more than an optimised run takes.
 *
 * @param model - A model, or where to open one.
 * @param given - See {@link ProfileOptions}.
 * @throws {@link TapirError} those of {@link openModel}; `BATCH_FIXED` if the model takes another batch only; `SESSION_FAILED` if ONNX
 * Runtime refuses the model; `RUN_FAILED` if it runs at none of the sizes that were tried; `INPUT_MISMATCH` if no values can be made up
 * for an input; `GRAPH_INVALID`; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { profileModel } from 'onnx-tapir/stages';
 *
 * const { total, modules } = await profileModel('resnet50.onnx');
 * console.log(total.macs, total.parameters); // 4089184256 25557032
 * console.log(modules.find(({ name }) => name === 'layer4')?.macs); // 809238528
 * ```
 */
export async function profileModel(
  model: OnnxModel | ModelSource,
  given: Options<ProfileOptions> = {},
): Promise<ModelProfile> {
  const { batch, time, threads, ...options } = readOptions(PROFILE_FIELDS, given, 'profileModel');
  const opened = readModel(model);
  const inputSizes = readInputSizes(options.inputSizes);
  checkInputSizes(inputSizes, opened.inputs);
  const costs = await measureCosts(opened, { batch, inputSizes });
  const times = time ? await timeNodes(opened, costs, threads) : undefined;
  const { graph } = modelInternals.of(opened);
  const measured = new Map(
    [...costs.nodes]
      .filter(([{ opType, domain }]) => opType !== 'Constant' || domain !== '')
      .map(([node, cost]): [Node, Measured] => [node, { ...cost, milliseconds: times?.get(node) }]),
  );
  const nodes = listNodes(graph, measured);
  return {
    batch: costs.batch,
    inputs: costs.inputs,
    nodes,
    modules: listModules(graph, measured, time),
    total: addUp(graph, [...measured], time),
    uncounted: listUncounted(nodes),
  };
}

function listNodes(graph: Graph, measured: ReadonlyMap<Node, Measured>): NodeCost[] {
  const names = nameValues(graph);
  const { places } = moduleTree(graph);
  return [...measured].map(
    ([node, { macs = null, milliseconds = null, initializers: _initializers, ...cost }]) => {
      const outputs = node.outputs.filter((value) => value !== undefined);
      const name = outputs.map((value) => names.get(value)).find(Boolean) ?? outputs[0]?.name ?? node.name;
      const op = node.domain === '' ? node.opType : `${node.domain}.${node.opType}`;
      const module = places.get(node)?.path ?? null;
      return Object.assign({ name, op, module, macs }, cost, { milliseconds });
    },
  );
}

function listModules(graph: Graph, measured: ReadonlyMap<Node, Measured>, isTimed: boolean): ModuleCost[] {
  const { places } = moduleTree(graph);
  const modules = new Map<string, [Node, Measured][]>();
  for (const [node, cost] of measured) {
    const atoms = places.get(node)?.path.split('.') ?? [];
    for (const [i, atom] of atoms.entries()) {
      if (atom === '') continue;
      const path = atoms.slice(0, i + 1).join('.');
      const inside = modules.get(path) ?? [];
      modules.set(path, inside);
      inside.push([node, cost]);
    }
  }
  return [...modules].map(([name, costs]) =>
    Object.assign({ name, nodes: costs.length }, addUp(graph, costs, isTimed)),
  );
}

/** Weights that several nodes read count once. */
function addUp(graph: Graph, measured: readonly (readonly [Node, Measured])[], isTimed: boolean): Cost {
  const costs = measured.map(([, cost]) => cost);
  const initializers = [...new Set(costs.flatMap((cost): readonly Value[] => cost.initializers))];
  return {
    macs: sum(costs, ({ macs = 0 }) => macs),
    ...weighTensors(
      graph,
      initializers,
      measured.map(([node]) => node),
    ),
    activationBytes: sum(costs, ({ activationBytes }) => activationBytes),
    milliseconds: isTimed ? sum(costs, ({ milliseconds = 0 }) => milliseconds) : null,
  };
}

function listUncounted(nodes: readonly NodeCost[]): Uncounted[] {
  const uncounted = nodes.filter(({ macs }) => macs === null);
  const byOperator = groupBy(uncounted, ({ op }) => op);
  return [...byOperator].map(([op, list]) => ({ op, nodes: list.map(({ name }) => name) }));
}
