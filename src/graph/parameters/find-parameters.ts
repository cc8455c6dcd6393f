/**
 * The parameters of a graph: which inputs of which nodes are parameters of the source network, under which names, and in which form.
 * Only names and structure are read, no values.
 */
import { isFloatType } from '../../onnx/schema.js';
import type { Graph, Node, Value } from '../graph.js';
import { firstPlaceOf, placeOf } from '../names/module-path.js';
import { foldedLayer, type FoldedLayer } from './folded-layer.js';
import { isMadeUp, parameterNames } from './parameter-names.js';
import { RUNNING_STATISTICS, slotName } from './parameter-slots.js';
import { isIdentity, siteOf, type Site } from './site.js';

/** A place in the graph where a parameter is read. */
export interface ParameterUse {
  /** The operator that uses it. */
  readonly node: Node;
  readonly site: Site;
  /** Names of the parameter, likeliest first; at least one. */
  readonly names: readonly string[];
  /** The order in which the parameter's axes lie in the file; null as in torch. */
  readonly perm: readonly number[] | null;
  readonly kind: 'parameter' | 'buffer';
}

/** The parameters of a graph, in execution order. */
export interface GraphParameters {
  readonly uses: readonly ParameterUse[];
  readonly folded: readonly FoldedLayer[];
  /** Initializers of floats that the exporter computed or that nothing names. */
  readonly unnamed: readonly Value[];
}

const found = new WeakMap<Graph, GraphParameters>();

/** The parameters of a graph; found on first use. */
export function findParameters(graph: Graph): GraphParameters {
  let parameters = found.get(graph);
  if (!parameters) found.set(graph, (parameters = searchGraph(graph)));
  return parameters;
}

function searchGraph(graph: Graph): GraphParameters {
  const isTorch = graph.nodes.some((node) => placeOf(node) !== undefined);
  const uses = new Map<string, ParameterUse>();
  const folded: FoldedLayer[] = [];
  const unnamed = new Set<Value>();
  const reads = countReads(graph);
  for (const node of graph.nodes) {
    if (isIdentity(node)) continue;
    const layer = isTorch ? foldedLayer(node) : undefined;
    if (layer) folded.push(layer);
    node.inputs.forEach((_, slot) => {
      const site = siteOf(node, slot);
      if (!site || (layer && slot > 0)) return;
      const use = readUse(node, slot, site, isTorch && { isShared: reads.get(site.initializer)! > 1 });
      const key = `${site.node.index} ${site.slot}`;
      if (use) uses.set(key, uses.get(key) ?? use);
      else if (isFloatType(site.initializer.initializer!.elemType)) unnamed.add(site.initializer);
    });
  }
  for (const { site } of uses.values()) unnamed.delete(site.initializer);
  return { uses: [...uses.values()], folded, unnamed: [...unnamed] };
}

/** How many inputs read each initializer, directly or behind Identity nodes. */
function countReads(graph: Graph): ReadonlyMap<Value, number> {
  const reads = new Map<Value, number>();
  for (const node of graph.nodes) {
    if (isIdentity(node)) continue;
    for (const slot of node.inputs.keys()) {
      const site = siteOf(node, slot);
      if (site) reads.set(site.initializer, (reads.get(site.initializer) ?? 0) + 1);
    }
  }
  return reads;
}

/** @param torch - False for a file that was not exported from torch. */
function readUse(
  node: Node,
  slot: number,
  site: Site,
  torch: false | { readonly isShared: boolean },
): ParameterUse | undefined {
  const { elemType, dims } = site.initializer.initializer!;
  const attribute = slotName(node, slot);
  const kind = RUNNING_STATISTICS.has(attribute ?? '') || !isFloatType(elemType) ? 'buffer' : 'parameter';
  // Exporters name the outputs of Identity nodes after the parameters that share an initializer.
  const { name } = torch && torch.isShared ? node.inputs[slot]! : site.initializer;
  if (!torch) {
    // Other exporters' names say nothing, so only the operator tells weights from constants.
    return attribute !== undefined && isFloatType(elemType)
      ? { node, site, names: [site.initializer.name], perm: null, kind }
      : undefined;
  }
  const written = isMadeUp(name) ? undefined : name;
  if (written === undefined && !isFloatType(elemType)) return undefined;
  const place = firstPlaceOf(node) ?? placeOf(node);
  const names = parameterNames(node, slot, written, place?.path, torch.isShared);
  if (names.length === 0) return undefined;
  const perm = written === undefined ? permOf(node, slot, dims) : null;
  return { node, site, names, perm, kind };
}

/** An exporter that names a matrix anew has transposed it for its product. */
function permOf({ opType, scanned }: Node, slot: number, dims: readonly number[]): readonly number[] | null {
  const isProduct = opType === 'MatMul' || (opType === 'Gemm' && scanned.layout.get('transB') !== 1);
  return isProduct && slot === 1 && dims.length === 2 ? [1, 0] : null;
}
