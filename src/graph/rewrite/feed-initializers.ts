/** Initializers that become inputs, under their own names: each run feeds them. */
import type { Value } from '../graph.js';
import type { Rewrite } from './rewrite.js';

/** The rewrite without the given initializers, or the Constants that hold them. Those that its cut does not hold stay away. */
export function feedInitializers(rewrite: Rewrite, fed: readonly Value[]): Rewrite {
  const { cut } = rewrite;
  const needed = fed.filter((value) => cut.values.has(value));
  const values = new Set(cut.values);
  const nodes = new Set(cut.nodes);
  for (const value of needed) {
    values.delete(value);
    if (value.producer) nodes.delete(value.producer);
  }
  const inputs = needed.map(({ name, initializer }) => {
    const { elemType, dims } = initializer!;
    return { name, elemType, dims };
  });
  return { ...rewrite, cut: { ...cut, values, nodes }, inputs: [...rewrite.inputs, ...inputs] };
}
