/** A rewrite → one that computes products in float32 and in 8 bits, and takes which of the two counts as an input. */
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import type { NewNode } from '../../onnx/wire/write-model.js';
import type { Node, Value } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from '../rewrite/node-builder.js';
import type { NodePatch, Rewrite } from '../rewrite/rewrite.js';
import type { Product } from './products.js';
import { Int8Parts, type Int8Matrix } from './with-int8.js';

/** A rewrite whose precision is an input. */
export interface SwitchedRewrite {
  readonly rewrite: Rewrite;
  /** The name of the input: bool `[products]`, true for a product that counts in 8 bits. */
  readonly switches: string;
}

/** Gives each product both forms. One session then measures any choice of products. */
export function withSwitches(
  rewrite: Rewrite,
  products: readonly Product[],
  matrices: ReadonlyMap<Value, Int8Matrix>,
): SwitchedRewrite {
  const parts = new Int8Parts(rewrite, matrices);
  const { names } = parts;
  const switches = names.take('tapir/int8/switches');
  const patches = new Map<Node, NodePatch>(rewrite.patches);
  const back: NewNode[] = [];
  const builder = new NodeBuilder(names, 'int8', opsetOf(rewrite.cut.graph));
  for (const [i, product] of products.entries()) {
    const { node } = product;
    const patch = patches.get(node);
    const output = patch?.outputs.get(0) ?? node.outputs[0]!.name;
    const exact = names.take(`${output}/float32`);
    const rounded = names.take(`${output}/int8`);
    patches.set(node, { ...patch, inputs: patch?.inputs ?? new Map(), outputs: new Map([[0, exact]]) });
    back.push(...parts.compute(product, rounded, names.take('tapir/int8/product')));
    const isOn = builder.add('Gather', [switches, builder.integers(i)]);
    builder.add('Where', [isOn, rounded, exact], {}, output);
  }
  const made: Rewrite = {
    ...rewrite,
    inputs: [...rewrite.inputs, { name: switches, elemType: ELEMENT_TYPE.bool, dims: [products.length] }],
    patches,
    back: [...back, ...builder.nodes, ...rewrite.back],
    tensors: [...rewrite.tensors, ...parts.tensors, ...builder.tensors],
    names,
  };
  return { rewrite: made, switches };
}
