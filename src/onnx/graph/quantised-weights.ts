/** The weights that a graph holds in levels: integers or small floats with a scale. They are parameters of the network, as those in floats. */
import { oncePer } from '../../base/once-per.js';
import type { Graph, Node, Value } from './graph.js';

/** The inputs that take levels of a weight or a bias. */
const LEVELS: Readonly<Record<string, readonly number[]>> = {
  ConvInteger: [1],
  DequantizeLinear: [0],
  DynamicQuantizeMatMul: [1],
  MatMulInteger: [1],
  MatMulIntegerToFloat: [1],
  QGemm: [3, 6],
  QLinearConv: [3, 8],
  QLinearMatMul: [3],
};

/** The initializers with levels that an operator reads. */
export const quantisedWeights: (graph: Graph) => ReadonlySet<Value> = oncePer(findWeights);

function findWeights({ nodes }: Graph): ReadonlySet<Value> {
  const found = new Set<Value>();
  for (const { opType, inputs } of nodes)
    for (const slot of LEVELS[opType] ?? []) {
      const value = inputs[slot];
      if (value?.initializer) found.add(value);
    }
  return found;
}

/** The initializers that a node reads, and those that a DequantizeLinear makes floats of for it: weights of a layer in 8 bits. */
export function initializersOf(node: Node): readonly Value[] {
  return node.reads.flatMap((value) => {
    if (value.initializer) return [value];
    const { producer } = value;
    const isWeight = producer?.opType === 'DequantizeLinear' && producer.inputs[0]?.initializer !== undefined;
    return isWeight ? producer.reads.filter(({ initializer }) => initializer !== undefined) : [];
  });
}
