/** Products of integers that are quantised at run time: with the Cast, the factors and the bias that make a float of them. */
import type { Node, Value } from '../graph.js';
import { nameInTensor } from '../module-path.js';
import { isOwn } from './forms.js';

export interface IntegerProduct {
  readonly product: Node;
  /** The nodes after it, the last one among them. */
  readonly nodes: readonly Node[];
  readonly last: Node;
  /** What the last node adds, if it is the bias. */
  readonly bias: Value | undefined;
}

/** Finds what follows a ConvInteger or MatMulInteger; `undefined` if that is not a Cast and a Mul. */
export function findProduct(product: Node): IntegerProduct | undefined {
  const cast = onlyUser(product);
  const scaled = cast?.opType === 'Cast' ? onlyUser(cast) : undefined;
  if (!cast || scaled?.opType !== 'Mul') return undefined;
  const scales = scaled.inputs.find((value) => value !== cast.outputs[0])?.producer;
  const isScale = scales !== undefined && scales.opType === 'Mul' && scales.outputs[0]?.uses.length === 1;
  const nodes = [cast, ...(isScale ? [scales] : []), scaled];
  const add = product.opType === 'ConvInteger' ? onlyUser(scaled) : undefined;
  const bias = add?.opType === 'Add' ? add.inputs.find((value) => value !== scaled.outputs[0]) : undefined;
  const isBias = add && bias && isConstant(bias) && !isOwn(add) && isUnnamed(scaled);
  return isBias
    ? { product, nodes: [...nodes, add], last: add, bias }
    : { product, nodes, last: scaled, bias: undefined };
}

/** Whether a tensor has no name of the source: what a convolution without a bias gives keeps it. */
function isUnnamed({ outputs: [value] }: Node): boolean {
  const name = value?.name ?? '';
  return nameInTensor(name) === undefined && /quant_scaled_output$|^tapir\//.test(name);
}

function isConstant({ initializer, producer }: Value): boolean {
  return (
    initializer !== undefined ||
    (producer?.opType === 'Reshape' && producer.inputs[0]?.initializer !== undefined)
  );
}

function onlyUser({ outputs: [output] }: Node): Node | undefined {
  return output?.uses.length === 1 ? output.uses[0] : undefined;
}
