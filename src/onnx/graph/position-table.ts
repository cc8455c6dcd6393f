/** A table of positions that an exporter froze: the patches of one size of photo, although the graph's sides look open. */
import type { Graph } from './graph.js';
import type { Constants } from './read-constants.js';
import type { ScannedTensor } from '../file/scan/scan-value.js';
import { followTokens } from './token-flow.js';

/** A frozen table. */
export interface PositionTable {
  /** Its rows: those of tokens before the patches, then those of the patches. */
  readonly tensor: ScannedTensor;
  readonly before: number;
  readonly patches: number;
  /** Side of a patch in pixels. */
  readonly patch: number;
}

/** The stride of the first convolution: the patch of a Vision Transformer. Undefined without one. */
export function firstStride(graph: Graph, { attributesOf }: Constants): number | undefined {
  const first = graph.nodes.find(({ opType }) => opType === 'Conv');
  return first && attributesOf(first).get('strides')?.ints?.[0];
}

/** The table that is added to the patches of a photo, if the file holds it for a number of them. */
export function findPositionTable(graph: Graph, constants: Constants): PositionTable | undefined {
  for (const [value, { axis, learned, patch }] of followTokens(graph, constants).runs) {
    if (axis !== 1 || patch === undefined) continue;
    const before = learned.reduce((sum, { count }) => sum + count, 0);
    for (const { opType, inputs } of value.uses) {
      const tensor = opType === 'Add' ? inputs.find((one) => one !== value)?.initializer : undefined;
      const rows = tensor?.dims.at(-2);
      if (tensor && rows !== undefined && rows > before + 1)
        return { tensor, before, patches: rows - before, patch };
    }
  }
  return undefined;
}

/**
 * The rows and columns that a table of patches was made for: those in which places above each other have the most similar rows, as in
 * tables that were trained or interpolated.
 *
 * @param table - `patches × width` numbers.
 */
export function gridOfTable(table: Float32Array, patches: number): readonly [rows: number, columns: number] {
  const width = table.length / patches;
  const distanceAt = (columns: number): number => {
    let sum = 0;
    for (let at = columns * width; at < table.length; at++)
      sum += (table[at]! - table[at - columns * width]!) ** 2;
    return sum / (table.length - columns * width);
  };
  const divisors = Array.from({ length: patches }, (_, i) => i + 1).filter((n) => patches % n === 0);
  const inner = divisors.filter((n) => n > 1 && n < patches);
  const columns = inner.toSorted((a, b) => distanceAt(a) - distanceAt(b))[0] ?? patches;
  return [patches / columns, columns];
}
