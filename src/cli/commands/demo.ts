/** `tapir demo`: something to look at in a minute, with a model and photos that come with the package. */
import type { Command } from 'commander';
import { packageFile } from '../../base/package.js';
import { counted, shown } from '../../base/printable.js';
import { embedFolder } from '../../datasets/embed/embed-folder.js';
import { openDataset } from '../../datasets/files/dataset.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { searchDataset } from '../../products/features/search/search-dataset.js';
import { writeReport } from '../../products/pages/report/write-report.js';
import { EXIT } from '../terminal/exit-code.js';
import { withProgressLine } from '../terminal/progress-view.js';
import { openInBrowser } from '../terminal/show-page.js';
import { formatTable } from '../terminal/table.js';
import type { Terminal } from '../terminal/terminal.js';

const PHOTOS = 'examples/photos';
const OUTPUT = 'embedding';
/** Photos whose neighbours are printed, and how many neighbours. */
const SHOWN = 6;
const NEIGHBOURS = 3;

interface DemoFlags {
  readonly out?: string;
  readonly open: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  program
    .command('demo')
    .description(
      'embed example photos, or yours, with a small trained model, and open a page about the vectors',
    )
    .argument('[photos]', 'folder, list, archive or pattern of images (default: 24 example pictures)')
    .option(
      '-o, --out <folder>',
      'folder to write vectors and page to (default: tapir-demo; tapir-photos for your photos)',
    )
    .option('--no-open', 'do not open the page in the browser')
    .action((photos: string | undefined, flags: DemoFlags) => runDemo(terminal, photos, flags));
}

async function runDemo(
  terminal: Terminal,
  photos: string | undefined,
  { out = photos === undefined ? 'tapir-demo' : 'tapir-photos', open }: DemoFlags,
): Promise<void> {
  const { manifest, failed, failures } = await withProgressLine(terminal, async (watch) => {
    await using extractor = await createFeatureExtractor('demo', [OUTPUT]);
    return await embedFolder(extractor, photos ?? packageFile(PHOTOS), { out, ...watch });
  });
  for (const { path, error } of failures) terminal.err(`${shown(path ?? '')}: ${shown(error.message)}\n`);
  if (failed > 0) terminal.exitCode = EXIT.someFailed;
  const feature = manifest.features[OUTPUT];
  if (!feature) return;
  const { rows, dims } = feature;
  terminal.out(`${counted(rows, 'photo')} as vectors of ${dims.at(-1)} numbers: ${shown(out)}\n\n`);
  terminal.out(await describeNeighbours(terminal, out, rows));
  const { path } = await withProgressLine(terminal, (watch) => writeReport(out, watch));
  terminal.out(`\npage: ${shown(path)}\n`);
  if (open && terminal.isTerminal) openInBrowser(path);
  if (photos === undefined) terminal.out('next: tapir demo YOUR_PHOTOS\n');
}

/** Some photos, spread over the dataset, with their nearest neighbours. */
async function describeNeighbours(terminal: Terminal, folder: string, rows: number): Promise<string> {
  const dataset = await openDataset(folder);
  const every = Math.max(1, Math.floor(rows / SHOWN));
  const asked: { readonly path: string | null; readonly row: number; readonly vector: Float32Array }[] = [];
  for await (const { path, row, vector } of dataset.vectors(OUTPUT))
    if (row % every === 0 && asked.length < SHOWN) asked.push({ path, row, vector });
  const found = await searchDataset(
    dataset,
    asked.map(({ vector }) => vector),
    { exclude: asked.map(({ row }) => row), top: NEIGHBOURS },
  );
  const lines = asked.map(({ path }, i) =>
    [path ?? ''].concat(found[i]!.map((hit) => `${hit.path ?? ''} ${hit.score.toFixed(2)}`)),
  );
  const headings = ['photo', 'nearest, by cosine', ...Array.from({ length: NEIGHBOURS - 1 }, () => '')];
  return formatTable([headings, ...lines], { columns: terminal.columns, names: [0, 1, 2, 3] });
}
