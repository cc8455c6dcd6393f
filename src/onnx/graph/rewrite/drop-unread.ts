/** Drops constants that a rewrite no longer needs. */
import type { Value } from '../graph.js';
import { addedNodes, editOf, type Rewrite } from './rewrite.js';

/** Drops those of some constants that are no outputs, not bound, and that no node reads, with the nodes that made them. */
export function dropUnread(
  rewrite: Rewrite,
  constants: readonly Value[],
  isBound: (value: Value) => boolean = () => false,
): Rewrite {
  const { cut } = rewrite;
  const nodes = new Set(cut.nodes);
  const values = new Set(cut.values);
  const needed = new Set([
    ...cut.outputs.map(({ value }) => value.name),
    ...addedNodes(rewrite).flatMap(({ inputs }) => inputs),
  ]);
  const isRead = (value: Value): boolean =>
    value.uses.some(
      (node) =>
        nodes.has(node) &&
        (!node.inputs.includes(value) ||
          node.inputs.some((input, slot) => input === value && !editOf(rewrite, node).inputs.has(slot))),
    );
  const drop = (value: Value): void => {
    if (!values.has(value) || needed.has(value.name) || isBound(value) || isRead(value)) return;
    values.delete(value);
    const { producer } = value;
    if (!producer) return;
    nodes.delete(producer);
    for (const read of producer.reads) drop(read);
  };
  for (const value of constants) drop(value);
  return { ...rewrite, cut: { ...cut, nodes, values } };
}
