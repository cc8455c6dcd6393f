/** What the inputs of operators are called as attributes of a torch module. */
import type { Node } from '../graph.js';

/** Attribute names by operator and input. */
const SLOTS: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  Conv: { 1: 'weight', 2: 'bias' },
  ConvTranspose: { 1: 'weight', 2: 'bias' },
  Gemm: { 1: 'weight', 2: 'bias' },
  MatMul: { 1: 'weight' },
  BatchNormalization: { 1: 'weight', 2: 'bias', 3: 'running_mean', 4: 'running_var' },
  InstanceNormalization: { 1: 'weight', 2: 'bias' },
  LayerNormalization: { 1: 'weight', 2: 'bias' },
  GroupNormalization: { 1: 'weight', 2: 'bias' },
  RMSNormalization: { 1: 'weight' },
  PRelu: { 1: 'weight' },
  Gather: { 0: 'weight' },
};

/** Operators that a torch layer becomes alone: the module that runs one owns its parameters. */
const OWN_LAYERS = new Set([
  'Conv',
  'ConvTranspose',
  'BatchNormalization',
  'InstanceNormalization',
  'LayerNormalization',
  'GroupNormalization',
  'RMSNormalization',
]);

/** Operators whose inputs hold weights under separate names. */
const RECURRENT = new Set(['LSTM', 'GRU', 'RNN']);
/** Inputs with factors of sizes, by operator: floats that no network learns. */
const SIZES: Readonly<Record<string, readonly number[]>> = { Resize: [1, 2], Upsample: [1] };

export const RUNNING_STATISTICS: ReadonlySet<string> = new Set(['running_mean', 'running_var']);

/** The attribute that an input of a node is, if the operator tells: `weight` for the second input of a Conv. */
export function slotName(node: Node, slot: number): string | undefined {
  if (node.domain !== '') return undefined;
  if (node.opType === 'Add') return isProduct(node.inputs[1 - slot]?.producer) ? 'bias' : undefined;
  return SLOTS[node.opType]?.[slot];
}

/** Whether the operator tells that an input holds a weight of a layer, whatever its name is. */
export function isWeightSlot(node: Node, slot: number): boolean {
  const isRecurrent = node.domain === '' && RECURRENT.has(node.opType) && slot >= 1 && slot <= 3;
  return isRecurrent || slotName(node, slot) !== undefined;
}

/** Whether an input holds factors of sizes. */
export function holdsSizes({ domain, opType }: Node, slot: number): boolean {
  return domain === '' && SIZES[opType]?.includes(slot) === true;
}

/** Whether a torch layer becomes this node alone. */
export function isOwnLayer({ domain, opType }: Node): boolean {
  return domain === '' && OWN_LAYERS.has(opType);
}

function isProduct(node: Node | undefined): boolean {
  return node?.domain === '' && node.opType === 'MatMul';
}
