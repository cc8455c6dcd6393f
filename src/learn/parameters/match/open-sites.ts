/** Places that read a tensor whose key is not known yet, and what the tensor's name tells. */
import type { Graph, Node, Value } from '../../../onnx/graph/graph.js';
import { isUnder, joinPath, placeOf, placeOfTensor, splitPath } from '../../../onnx/graph/module-path.js';
import {
  moduleOf,
  runningModule,
  type GraphParameters,
  type ParameterUse,
  type UnnamedSite,
} from '../../../onnx/graph/parameters/find-parameters.js';
import {
  calledOnce,
  isMadeUp,
  spellForTorch,
  torchParameterAt,
} from '../../../onnx/graph/parameters/parameter-names.js';
import { isWeightSlot } from '../../../onnx/graph/parameters/parameter-slots.js';
import { isFloatType } from '../../../onnx/file/wire/schema.js';

/** A key at a place that does not name it. */
export interface PlacedKey {
  readonly site: UnnamedSite;
  readonly key: string;
  /** The order of the key's axes in the file, before axes of 1 come or go; null as in torch. */
  readonly perm: readonly number[] | null;
  /** Whether the node's torch call or its layer names the key. */
  readonly isNamed: boolean;
}

/** Operations that give the values that they read, by torch's names and by those of ONNX. */
const MOVING =
  /^_?(alias|as_strided|cast|cat|chunk|clone|concat|contiguous|detach|embedding|expand(_as)?|flatten|gather|getitem|identity|index(_select)?|lift_fresh|movedim|narrow|permute|repeat|reshape(_as)?|select|slice|split|squeeze|stack|t|tile|tmp|to|to_copy|transpose|unbind|unflatten|unsafe_view|unsqueeze|val|view)(_copy|_default)?(_\d+)?$/i;
/** What dynamo's exporter calls tensors that the code states. */
const LIFTED = /^(c_)?_?(lifted_tensor|tensor_constant)/;

/**
 * Whether an exporter may have only moved what a tensor holds: dynamo's exporter calls what it computes by torch's operation, tools by the
 * place of the operator.
 */
export function isMoved(value: Value): boolean {
  const operation =
    placeOfTensor(value)?.operation ?? (/^[a-z_]\w*$/.test(value.name) ? value.name : undefined);
  return operation === undefined || MOVING.test(operation);
}

/** Whether dims are the same but for axes of 1. */
export function isSameAxes(a: readonly number[], b: readonly number[]): boolean {
  const long = (dims: readonly number[]): string => String(dims.filter((size) => size !== 1));
  return long(a) === long(b);
}

/** Which of some keys a place reads, as its torch call states it, or as a layer has it whose weight is always reshaped: `nn.PReLU`. */
export function nameAt(
  { module, reader: { node, slot } }: UnnamedSite,
  keys: readonly string[],
): string | undefined {
  const stated = torchParameterAt(node, slot);
  if (stated !== undefined) return keys.find((key) => spellForTorch(key) === stated);
  const isPRelu = node.opType === 'PRelu' && slot === 1 && module !== undefined && module !== '';
  const own =
    isPRelu && node.scanned.torchParameters === undefined ? joinPath(calledOnce(module), 'weight') : '';
  return keys.find((key) => key === own);
}

/** Whether a key belongs to the module that reads a tensor, or to one in it that runs nothing itself. */
export function isNear({ module }: UnnamedSite, key: string, parameters: GraphParameters): boolean {
  if (module === undefined) return false;
  return module === '' ? around(key, parameters) === '' : isUnder(key, calledOnce(module));
}

/** The innermost module with a key that runs a node. */
export function around(key: string, parameters: GraphParameters): string {
  return runningModule(splitPath(key)[0], parameters);
}

/**
 * Whether a name that no key has is that of a buffer or a constant of the network. Made-up names are not, nor names of dynamo's exporter
 * without a dot that no torch call states, nor names that a tool made of a key.
 */
export function namesConstant(graph: Graph, { name, uses }: Value, keys: Iterable<string>): boolean {
  if (isMadeUp(name)) return false;
  const isFromDynamo = uses.some((node) => placeOf(node)?.scheme === 'dynamo');
  if (isFromDynamo && !name.includes('.') && !LIFTED.test(name) && !isStated(graph, name)) return false;
  for (const key of keys) if (key.includes('.') && name.includes(key)) return false;
  return true;
}

function isStated({ nodes }: Graph, name: string): boolean {
  const spelled = spellForTorch(name);
  return nodes.some(({ scanned }) => scanned.torchParameters?.includes(spelled));
}

/**
 * The places of float tensors that nodes read only inside their bodies, and of sparse ones. Slot -1 stands for a read that is no input.
 */
export function hiddenSites(nodes: Iterable<Node>): UnnamedSite[] {
  return [...nodes].flatMap((node) =>
    node.reads.flatMap((initializer) => {
      const tensor = initializer.initializer;
      const isHidden =
        tensor && isFloatType(tensor.elemType) && (tensor.parts || !node.inputs.includes(initializer));
      return isHidden
        ? [{ node, slot: -1, initializer, module: moduleOf(node), reader: { node, slot: -1 } }]
        : [];
    }),
  );
}

/** The nodes that outputs need. */
export function neededNodes({ outputs }: Graph): Set<Node> {
  const needed = new Set<Node>();
  const queue: Value[] = [...outputs];
  for (const { producer } of queue) {
    if (!producer || needed.has(producer)) continue;
    needed.add(producer);
    queue.push(...producer.reads);
  }
  return needed;
}

/** A parameter that a node reads inside its bodies, under the name of its tensor. */
export function useInside({ node, slot, initializer }: UnnamedSite): ParameterUse {
  const names = [initializer.name];
  const stated = { perm: null, isGuess: false, spelled: undefined, isCertain: true } as const;
  return { node, site: { node, slot, initializer }, names, kind: 'parameter', ...stated };
}

/** Whether an unnamed place may read a key. Constant nodes hold what the code states, but for a weight of a frozen script. */
export function mayHoldKey({ node, slot, initializer }: UnnamedSite): boolean {
  return !initializer.producer || (isWeightSlot(node, slot) && initializer.initializer!.dims.length > 1);
}
