/** `tapir search`: finds the nearest images of a dataset. */
import { Option, type Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { openDataset, type Dataset } from '../../dataset/dataset.js';
import { readDevice, type Device } from '../../runtime/device.js';
import { METRICS, type Metric } from '../../apps/search/metric.js';
import { embedQueries, readRecipe, readRowQueries } from '../../apps/search/query-vectors.js';
import {
  chooseKey,
  SEARCH_DEFAULTS,
  searchDataset,
  type SearchHit,
} from '../../apps/search/search-dataset.js';
import { collect, parseCount } from '../flags/flag-values.js';
import { findModelFile, YES_FLAG, YES_HELP } from '../flags/find-model.js';
import { formatTable, printable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

interface SearchFlags {
  readonly path?: readonly string[];
  readonly model?: string;
  readonly yes: boolean;
  readonly output?: string;
  readonly top: number;
  readonly metric: Metric;
  readonly device: string;
  readonly json: boolean;
}

/** Adds `tapir search`. */
export function addSearchCommand(program: Command, terminal: Terminal): void {
  program
    .command('search')
    .description('find the images of a dataset that are nearest to given images, exactly')
    .argument('<dataset>', 'folder that tapir embed has written')
    .argument('[images...]', 'images to search for, embedded like the dataset')
    .option('--path <path>', 'search for an input of the dataset, by its path; repeatable', collect)
    .option('--model <file>', 'the ONNX file that made the dataset; required for images')
    .option(YES_FLAG, YES_HELP, false)
    .option('--output <key>', 'output key of the features; required if the dataset has several')
    .option('--top <n>', 'number of neighbours per image', parseCount, SEARCH_DEFAULTS.top)
    .addOption(
      new Option('--metric <name>', 'cosine, the product, or the Euclidean distance')
        .choices(METRICS)
        .default(SEARCH_DEFAULTS.metric),
    )
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto', 'cpu')
    .option('--json', 'print JSON', false)
    .action((folder: string, images: string[], flags: SearchFlags) =>
      runSearch(terminal, folder, images, flags),
    );
}

/** A query and its name. */
interface NamedQuery {
  readonly query: string;
  readonly vector: Float32Array;
  /** Row of an input of the dataset; null for an image. */
  readonly row: number | null;
}

async function runSearch(
  terminal: Terminal,
  folder: string,
  images: readonly string[],
  flags: SearchFlags,
): Promise<void> {
  const { top, metric, json } = flags;
  const { signal } = terminal;
  // Checked here as well, so that the error names the flag.
  readDevice('--device', flags.device);
  const device = flags.device as Device;
  if (images.length === 0 && flags.path === undefined)
    throw invalidOption('[images...]', 'given, or inputs of the dataset with --path', []);
  const dataset = await openDataset(folder);
  const key = chooseKey(dataset, flags.output, '--output');
  const rows = await readRowQueries(dataset, key, flags.path ?? []);
  const vectors = await embed(terminal, dataset, images, { model: flags.model, yes: flags.yes, key, device });
  const queries: NamedQuery[] = [
    ...images.map((query, i) => ({ query, vector: vectors[i]!, row: null })),
    ...rows.map(({ row, vector }, i) => ({ query: flags.path![i]!, vector, row })),
  ];
  const found = await searchDataset(
    dataset,
    queries.map(({ vector }) => vector),
    { key, top, metric, device, signal, exclude: queries.map(({ row }) => row) },
  );
  if (json) {
    const results = queries.map(({ query, row }, i) => ({ query, row, hits: found[i]! }));
    terminal.out(`${JSON.stringify({ dataset: folder, key, metric, results }, null, 2)}\n`);
    return;
  }
  const blocks = queries.map(({ query }, i) => blockOf(query, found[i]!, metric, queries.length > 1));
  terminal.out(blocks.join('\n'));
}

/** What embeds the queries. */
interface EmbedRequest {
  readonly model: string | undefined;
  readonly yes: boolean;
  readonly key: string;
  readonly device: Device;
}

async function embed(
  terminal: Terminal,
  dataset: Dataset,
  images: readonly string[],
  { model, yes, key, device }: EmbedRequest,
): Promise<Float32Array[]> {
  if (images.length === 0) return [];
  if (model === undefined) {
    const { file, sha256 } = readRecipe(dataset, key);
    const expected = `the file that the dataset was made with (${file}, SHA-256 ${sha256})`;
    throw invalidOption('--model', expected, model);
  }
  const path = await findModelFile(model, terminal, yes);
  return embedQueries(dataset, images, { key, model: path, device, signal: terminal.signal });
}

function blockOf(query: string, hits: readonly SearchHit[], metric: Metric, isNamed: boolean): string {
  const score = metric === 'l2' ? 'distance' : metric;
  const rows = hits.map((hit) => [
    String(hit.rank),
    hit.score.toPrecision(6),
    String(hit.row),
    hit.path ?? '(bytes)',
  ]);
  const table = formatTable([['rank', score, 'row', 'path'], ...rows], [0, 1, 2]);
  return isNamed ? `${printable(query)}\n${table}` : table;
}
