/** `tapir search`: finds the nearest images of a dataset. */
import { shown } from '../../base/printable.js';
import { buffer } from 'node:stream/consumers';
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { partName } from '../../photos/images/pixels/tile-grid.js';
import { openDataset, type Dataset } from '../../datasets/files/dataset.js';
import { noteAssumed } from '../../datasets/embed/recorded-model.js';
import { elementCount } from '../../onnx/tensor/tensor.js';
import type { Metric } from '../../products/features/search/metric.js';
import { checkPhotos, QueryModels } from '../../products/features/search/query-models.js';
import { readRecipe } from '../../datasets/embed/recorded-recipe.js';
import { readRowQueries } from '../../products/features/search/query-vectors.js';
import { parseVectors } from '../../products/features/search/read-vectors.js';
import { combineVectors } from '../../products/features/search/search-query.js';
import {
  chooseKey,
  SEARCH_FIELDS,
  searchDataset,
  type SearchHit,
  type SearchOptions,
} from '../../products/features/search/search-dataset.js';
import { collect, readFlagFile } from '../flags/flag-values.js';
import { findModelFile, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { findTextModels } from '../flags/find-text-models.js';
import { addFlags } from '../flags/option-flags.js';
import { formatTable } from '../terminal/table.js';
import { withProgressLine } from '../terminal/progress-view.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';

interface SearchFlags
  extends CommonFlags, Pick<SearchOptions, 'key' | 'top' | 'metric' | 'where' | 'device'> {
  readonly path?: readonly string[];
  readonly text?: readonly string[];
  readonly vector?: readonly string[];
  readonly not?: readonly string[];
  readonly mean: boolean;
  readonly model?: string;
  readonly textModel?: string;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('search')
    .description(
      'find the images of a dataset that are nearest to given images, texts or vectors, exactly. To label all images by words: "tapir probe --zero-shot"',
    )
    .argument('<dataset>', 'folder that tapir embed has written')
    .argument('[images...]', 'images to search for, embedded like the dataset')
    .option(
      '--path <path>',
      'search for an input of the dataset, by its path (all its tiles, crops or clips) or by the name that results show; repeatable',
      collect,
    )
    .option(
      '--text <words>',
      'find the images that fit a text, with a model such as CLIP or SigLIP; repeatable',
      collect,
    )
    .option(
      '--vector <file>',
      'search for vectors: a .npy file or JSON, - for standard input; repeatable',
      collect,
    )
    .option('--not <words>', 'a text that results should not resemble; repeatable', collect)
    .option('--mean', 'one search for the mean of all queries, each of length 1', false)
    .option(
      '--model <file>',
      'the ONNX file that made the dataset; required for images, and finds the text tower beside it',
    )
    .option('--text-model <file>', 'the text tower, if it does not lie beside the model')
    .option(rare(YES_FLAG), YES_HELP, false)
    .option('--json', 'print JSON', false)
    .action((folder: string, images: string[], flags: SearchFlags) =>
      runSearch(terminal, folder, images, flags),
    );
  addFlags(command, SEARCH_FIELDS, {
    key: '--output <key>',
    top: '--top <n>',
    metric: '--metric <name>',
    where: '--where <label>',
    device: '--device <device>',
  });
}

interface NamedQuery {
  readonly query: string;
  readonly vector: Float32Array;
  /** Row of an input of the dataset; null for an image, and for several queries in one. */
  readonly row: number | null;
  /** Rows that ask, which are no answers. */
  readonly own: readonly number[];
}

async function runSearch(
  terminal: Terminal,
  folder: string,
  images: readonly string[],
  flags: SearchFlags,
): Promise<void> {
  const { top, metric, where, device, json } = flags;
  const dataset = await openDataset(folder);
  for (const note of noteAssumed(dataset)) terminal.err(`note: ${note}\n`);
  const key = chooseKey(dataset, flags.key);
  const given = await readQueries(terminal, dataset, images, { ...flags, key });
  const queries = combine(dataset, key, given, flags.mean);
  const vectors = queries.map(({ vector }) => vector);
  const exclude = queries.map(({ own }) => own);
  const found = await withProgressLine(terminal, (watch) =>
    searchDataset(dataset, vectors, { key, top, metric, where, device, exclude, ...watch }),
  );
  if (json) {
    const results = queries.map(({ query, row }, i) => ({ query, row, hits: found[i]! }));
    return printJson(terminal, { dataset: folder, key, metric, results });
  }
  const blocks = queries.map(({ query }, i) =>
    blockOf(found[i]!, metric, queries.length > 1 ? query : undefined, terminal.columns),
  );
  terminal.out(blocks.join('\n'));
}

/** What embeds the queries. */
type EmbedRequest = SearchFlags & { readonly key: string };

/** The queries, and what they should not resemble. */
interface Queries {
  readonly like: readonly NamedQuery[];
  readonly unlike: readonly Float32Array[];
}

async function readQueries(
  terminal: Terminal,
  dataset: Dataset,
  images: readonly string[],
  request: EmbedRequest,
): Promise<Queries> {
  const { path: paths = [], text: texts = [], not = [], vector: files = [], key } = request;
  if ([images, paths, texts, files].every(({ length }) => length === 0))
    throw invalidOption('[images...]', 'given, or --path, --text or --vector', []);
  const rows = await readRowQueries(dataset, key, paths);
  const shown = await embed(terminal, dataset, images, request);
  const words = await embedWords(terminal, dataset, [...texts, ...not], request);
  const vectors = [];
  for (const file of files) vectors.push(await readVectors(terminal, file));
  return {
    like: [
      ...images.map((query, i) => ({ query, vector: shown[i]!, row: null, own: [] })),
      ...rows.map(({ name, row, vector }) => ({ query: name, row, vector, own: [row] })),
      ...texts.map((query, i) => ({ query, vector: words[i]!, row: null, own: [] })),
      ...vectors.flat(),
    ],
    unlike: words.slice(texts.length),
  };
}

/** The queries that are searched for: as they are, with their mean, or less the mean of what they should not resemble. */
function combine(
  dataset: Dataset,
  key: string,
  { like, unlike }: Queries,
  isMean: boolean,
): readonly NamedQuery[] {
  if (!isMean && unlike.length === 0) return like;
  const elements = elementCount(dataset.manifest.features[key]!.dims);
  const combined = (queries: readonly NamedQuery[]): Float32Array =>
    combineVectors(
      queries.map(({ vector }) => vector),
      unlike,
      elements,
    );
  if (!isMean) return like.map((query) => ({ ...query, vector: combined([query]) }));
  const [query, own] = [like.map((one) => one.query).join(' + '), like.flatMap((one) => one.own)];
  return [{ query, vector: combined(like), row: null, own }];
}

async function embedWords(
  terminal: Terminal,
  dataset: Dataset,
  texts: readonly string[],
  request: EmbedRequest,
): Promise<Float32Array[]> {
  if (texts.length === 0) return [];
  if (request.model === undefined && request.textModel === undefined)
    throw invalidOption('--text-model', 'given for texts, or --model with a text tower beside it', undefined);
  const { key, device } = request;
  const models = await findTextModels(request, terminal);
  await using opened = new QueryModels(dataset, { ...models, key, device });
  return await opened.embedTexts(texts, terminal.signal);
}

async function readVectors(terminal: Terminal, file: string): Promise<NamedQuery[]> {
  const bytes = file === '-' ? await buffer(terminal.input()) : await readFlagFile('--vector', file);
  const vectors = parseVectors(bytes, file);
  return vectors.map((vector, i) => ({
    query: vectors.length === 1 ? file : `${file}[${i}]`,
    vector,
    row: null,
    own: [],
  }));
}

async function embed(
  terminal: Terminal,
  dataset: Dataset,
  images: readonly string[],
  { model, yes, key, device }: EmbedRequest,
): Promise<Float32Array[]> {
  if (images.length === 0) return [];
  checkPhotos(dataset, images);
  if (model === undefined) {
    const { file, sha256 } = readRecipe(dataset, key);
    const expected = `the file that the dataset was made with (${file}, SHA-256 ${sha256})`;
    throw invalidOption('--model', expected, model);
  }
  const path = await findModelFile(model, terminal, yes);
  await using opened = new QueryModels(dataset, { key, model: path, textModel: undefined, device });
  return await opened.embedImages(images, terminal.signal);
}

function blockOf(
  hits: readonly SearchHit[],
  metric: Metric,
  query: string | undefined,
  columns: number | undefined,
): string {
  const score = metric === 'l2' ? 'distance' : metric;
  const rows = hits.map((hit) => [
    String(hit.rank),
    hit.score.toPrecision(6),
    String(hit.row),
    (hit.path ?? '(bytes)') + partName(hit),
  ]);
  const layout = { columns, right: [0, 1, 2], names: [3], spare: [2] };
  const table = formatTable([['rank', score, 'row', 'path'], ...rows], layout);
  return query === undefined ? table : `${shown(query)}\n${table}`;
}
