/** `tapir nodes`: lists the names of a model as a tree, with operators, shapes and marks. */
import { Option, type Command } from 'commander';
import { isTapirError, reasonOf } from '../../base/errors.js';
import { cutGraph, outputsOf } from '../../onnx/graph/rewrite/prune.js';
import { checkNodeNames } from '../../onnx/graph/rewrite/tidy.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { findTransform } from '../../photos/images/configs/find-transform.js';
import { openModel, type OnnxModel } from '../../run/model/open/open-model.js';
import { listFeatureTree, type ListedFeature } from '../../run/model/oracle/describe-features.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { formatDims, formatTable } from '../terminal/table.js';
import { collect, parseCount } from '../flags/flag-values.js';
import { PROFILE_FIELDS } from '../../extract/stages/profile-model.js';
import { operatorsOf, runNodeCosts, type CostFlags } from './node-costs.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';

export interface NodesFlags extends CommonFlags {
  readonly depth?: number;
  readonly all: boolean;
}

/** Columns whose cells are names. */
const [NAME, DTYPE, CHANNELS, SCALE, MARKS, TENSOR] = [0, 2, 4, 5, 6, 7];
/** More nodes in a row that belong to no module are shown as one line. */
const MOST_IN_ROW = 5;

export function addCommand(program: Command, terminal: Terminal): void {
  program
    .command('nodes')
    .description('list the names that you can request, in execution order')
    .argument('<model>', MODEL_HELP)
    .option(rare(YES_FLAG), YES_HELP, false)
    .option('--depth <n>', 'show modules down to this depth', parseCount)
    .option('--all', 'also list constants and sizes', false)
    .option('--cost', 'what each module and node costs: multiply-accumulates, weights, activations', false)
    .addOption(costOption('--batch <n>', 'rows of the inputs').argParser(parseCount))
    .addOption(costOption('--time', 'also time each node on the CPU').default(false))
    .addOption(
      costOption('--threads <n>', 'threads of a node that is timed; 0 for all')
        .argParser(parseCount)
        .default(PROFILE_FIELDS.threads.fallback),
    )
    .addOption(
      costOption('--size <[axis=]n>', 'size of an open axis; N alone for height and width').argParser(
        collect,
      ),
    )
    .addOption(costOption('--input-shape <input=n,n,…>', 'shape of an input; repeatable').argParser(collect))
    .option('--json', 'print JSON', false)
    .action(async (model: string, { cost, ...flags }: NodesFlags & CostFlags & { cost: boolean }) =>
      cost ? runNodeCosts(terminal, model, flags) : runNodes(terminal, model, flags),
    );
}

/** A flag of `nodes --cost`, which turns it on. */
function costOption(flags: string, description: string): Option {
  return new Option(flags, `costs: ${description}`).implies({ cost: true });
}

export async function runNodes(terminal: Terminal, path: string, flags: NodesFlags): Promise<void> {
  const file = await findModelFile(path, terminal, flags.yes);
  const model = await openModel(file);
  const { features, problem } = await listFeatureTree(model, flags.all);
  if (problem !== undefined) terminal.err(`tapir: some shapes are unknown: ${problem}\n`);
  const flaw = flawOf(model);
  if (flaw !== undefined && flaw !== problem) terminal.err(`tapir: ${flaw}\n`);
  // A module at the depth represents its content.
  const most = Math.max(1, flags.depth ?? Infinity);
  const listed = features.filter(({ depth }) => depth < most);
  const found = await findTransform(file).catch((error: unknown) => {
    terminal.err(`tapir: ${reasonOf(error)}\n`);
    return null;
  });
  if (flags.json) {
    const { inputs, outputs, producer, irVersion, names } = model;
    const transform = found?.transform.options ?? null;
    return printJson(terminal, { inputs, outputs, producer, irVersion, names, transform, nodes: listed });
  }
  if (model.names !== null) terminal.out(`names from ${model.names}\n\n`);
  if (found) terminal.out(`pixels from ${found.from} (${found.kind})\n\n`);
  const rows = (flags.depth === undefined ? listed : groupNodes(listed)).map((item) => [
    '  '.repeat(item.depth) + item.name,
    item.op,
    item.dtype ?? (item.tensor === '' ? '' : '?'),
    item.tensor === '' ? '' : formatDims(item.dims?.map((size) => shortSize(size, item.reduction)) ?? null),
    item.channels === null ? '' : String(item.channels),
    item.reduction === null ? '' : `1/${item.reduction}`,
    item.marks.join(', '),
    item.tensor,
  ]);
  const head = ['name', 'op', 'dtype', 'dims', 'channels', 'scale', 'marks', 'tensor'];
  const spare = [TENSOR, MARKS, SCALE, CHANNELS, DTYPE];
  terminal.out(formatTable([head, ...rows], { columns: terminal.columns, names: [NAME, TENSOR], spare }));
}

/** Why ONNX Runtime would refuse the whole graph, as far as its nodes tell; undefined if they do not. */
function flawOf(model: OnnxModel): string | undefined {
  const { graph } = modelInternals.of(model);
  try {
    checkNodeNames(cutGraph(graph, { outputs: outputsOf(graph.outputs, 'output'), allowNonTensor: true }));
    return undefined;
  } catch (error) {
    if (isTapirError(error, 'GRAPH_INVALID')) return error.message;
    throw error;
  }
}

/** `floor(floor(h/2 - 1/2)/2 + 1)` → `h/4`: what the dynamo exporter writes as the size of a map. `--json` has the formula. */
function shortSize(size: number | string | null, reduction: number | null): number | string | null {
  if (typeof size !== 'string' || !/[(/]/.test(size)) return size;
  const [name] = /[a-z_]\w*(?![\w(])/i.exec(size) ?? [];
  if (name === undefined) return size;
  return reduction === null ? `f(${name})` : `${name}/${reduction}`;
}

/** Replaces each long run of nodes without a module by one line, so that the modules stay in sight. */
export function groupNodes(features: readonly ListedFeature[]): ListedFeature[] {
  const grouped: ListedFeature[] = [];
  let run: ListedFeature[] = [];
  const endRun = (): void => {
    if (run.length <= MOST_IN_ROW) grouped.push(...run);
    else {
      const name = `(${run.length} nodes, up to ${run.at(-1)!.name})`;
      grouped.push({
        ...run[0]!,
        name,
        op: operatorsOf(run),
        dtype: null,
        dims: null,
        channels: null,
        reduction: null,
        marks: [],
        tensor: '',
      });
    }
    run = [];
  };
  for (const feature of features) {
    if (feature.isModule || feature.op === 'input' || (run[0] && run[0].depth !== feature.depth)) endRun();
    if (feature.isModule || feature.op === 'input') grouped.push(feature);
    else run.push(feature);
  }
  endRun();
  return grouped;
}
