/** Tidies a written graph on request. ONNX Runtime does not need it; checkers and other runtimes do. */
import { TapirError } from '../../../base/errors.js';
import type { Node } from '../graph.js';
import type { Field } from '../../file/wire/wire.js';
import { describeNode, type Cut } from './prune.js';

/** Refuses kept nodes with the same name, as ONNX Runtime does. Throws `GRAPH_INVALID`. */
export function checkNodeNames({ nodes }: Cut): void {
  const seen = new Map<string, Node>();
  for (const node of nodes) {
    // ONNX Runtime turns Constant nodes into initializers first, so their names do not matter.
    if (node.name === '' || node.opType === 'Constant') continue;
    const other = seen.get(node.name);
    if (other) {
      const reason = `two nodes have the name "${node.name}" (${other.opType} and ${node.opType})`;
      throw new TapirError(
        'GRAPH_INVALID',
        `the model's graph is broken: ${reason}, which ONNX Runtime refuses; "tidy" gives them distinct names`,
        { details: { reason, where: [describeNode(other), describeNode(node)] } },
      );
    }
    seen.set(node.name, node);
  }
}

/** Imports of operator sets that no kept node uses. */
export function unusedImports({ graph, nodes, functions }: Cut): Field[] {
  const used = new Set(['']);
  const bodies = [...functions].map((fn) => fn.content);
  for (const { domain, scanned } of nodes) {
    used.add(domain);
    if (scanned.bodies) bodies.push(scanned.bodies);
  }
  for (const { operators } of bodies) for (const { domain } of operators.values()) used.add(domain);
  return [...graph.model.imports].filter(([, domain]) => !used.has(domain)).map(([field]) => field);
}
