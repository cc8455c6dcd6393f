/** `tapir nodes`: the names of a model as a tree, with operator, shape and marks. */
import { listFeatureTree, type ListedFeature } from '../../model/list-features.js';
import { openModel } from '../../model/open-model.js';
import { ModelOracle } from '../../model/oracle/model-oracle.js';
import { findModelFile } from '../flags/find-model.js';
import { formatDims, formatTable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

export interface NodesFlags {
  readonly depth?: number;
  readonly all: boolean;
  readonly json: boolean;
}

/** Prints the names. */
export async function runNodes(terminal: Terminal, path: string, flags: NodesFlags): Promise<void> {
  const model = await openModel(await findModelFile(path));
  await using oracle = new ModelOracle(model);
  const { features, problem } = await listFeatureTree(model, flags.all, oracle);
  if (problem !== undefined) terminal.err(`tapir: some shapes are unknown: ${problem}\n`);
  const listed = flags.depth === undefined ? features : atDepth(features, Math.max(1, flags.depth));
  if (flags.json) {
    const { inputs, outputs, producer, irVersion, names } = model;
    terminal.out(
      `${JSON.stringify({ inputs, outputs, producer, irVersion, names, nodes: listed }, null, 2)}\n`,
    );
    return;
  }
  if (model.names !== null) terminal.out(`names from ${model.names}\n\n`);
  const rows = listed.map((item) => [
    '  '.repeat(item.depth) + item.name,
    item.op,
    item.dtype ?? '?',
    formatDims(item.dims),
    item.channels === null ? '' : String(item.channels),
    item.reduction === null ? '' : `1/${item.reduction}`,
    item.marks.join(', '),
    item.tensor,
  ]);
  terminal.out(
    formatTable([['name', 'op', 'dtype', 'dims', 'channels', 'scale', 'marks', 'tensor'], ...rows]),
  );
}

/** Modules at a depth stand for what is below them. */
function atDepth(features: readonly ListedFeature[], depth: number): ListedFeature[] {
  return features.filter((feature) => feature.depth < depth);
}
