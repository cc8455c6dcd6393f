/** Names where only tensors of the file will do, and names of values that the file has only as whole numbers. */
import { TapirError } from '../../../base/errors.js';
import { floatView } from '../float-view/float-view.js';
import type { Graph } from '../graph.js';
import { resolveName, resolveNames, type Resolved } from './resolve-names.js';

/**
 * Resolves requests of tensors of the file. Throws as {@link resolveNames}, and `NAME_FOLDED` for a value that the file has only as whole
 * numbers.
 */
export function resolveTensors(
  graph: Graph,
  requests: readonly string[],
  keys: readonly string[] = requests,
): Resolved[] {
  const resolved = resolveNames(graph, requests, keys);
  const found = resolved.find(({ levels }) => levels);
  if (!found) return resolved;
  const { request, value } = found;
  const instead = `tensor:${value.name}`;
  throw new TapirError(
    'NAME_FOLDED',
    `"${request}" is in the file only as whole numbers, which can be cut out and not be fed or differentiated; what the file has is "${instead}"`,
    { details: { request, instead } },
  );
}

/** Whether a name means numbers of a value that the file has only as whole numbers. */
export function meansNumbers(graph: Graph, name: string): boolean {
  if (floatView(graph).graph === graph) return false;
  const found = resolveName(graph, name);
  return found !== undefined && 'value' in found && found.levels !== undefined;
}
