/** `tapir explore`: one page about a model, in the browser or as a file. */
import { addPhotoFlags, type PhotoFlags } from '../flags/photo-flags.js';
import { shown } from '../../base/printable.js';
import { TRANSFORM_FIELDS } from '../../photos/feeds/choose-transform.js';
import { basename } from 'node:path';
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { Explorer } from '../../products/pages/explore/explorer.js';
import { serveExplorer } from '../../products/pages/explore/serve-explorer.js';
import {
  EXPLORER_FIELDS,
  writeExplorer,
  type ExplorerOptions,
} from '../../products/pages/explore/write-explorer.js';
import { formatBytes } from '../../base/html/numbers.js';
import { messageOf } from '../terminal/exit-code.js';
import { withProgressLine } from '../terminal/progress-view.js';
import { showPage } from '../terminal/show-page.js';
import { printJson, type Terminal } from '../terminal/terminal.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { LABELS_HELP, readLabelsFlag } from '../flags/labels-flag.js';
import { parseCount } from '../flags/flag-values.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { rare } from '../flags/rare.js';

/** The flags that are options of `writeExplorer`. */
const FLAGS = {
  returnNodes: '--return <name>',
  layer: '--cam <layer>',
  class: '--class <class>',
  time: '--time',
  device: '--device <device>',
} as const;

interface ExploreFlags
  extends CommonFlags, PhotoFlags, Pick<ExplorerOptions, Exclude<keyof typeof FLAGS, 'returnNodes'>> {
  readonly out?: string;
  readonly port: number;
  readonly open: boolean;
  readonly returnNodes?: readonly string[];
  readonly labels?: string;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('explore')
    .description('look at a model: its modules, shapes and costs, what a cut keeps, what it sees in photos')
    .argument('<model>', MODEL_HELP)
    .argument('[photo...]', 'photos to look at')
    .option('-o, --out <file>', 'write the page as one HTML file instead of serving it')
    .option('--port <n>', 'port on this machine; 0 takes a free one', parseCount, 0)
    .option('--no-open', 'do not open the browser')
    .option('--labels <file>', LABELS_HELP)
    .option(rare(YES_FLAG), YES_HELP, false)
    .option(rare('--json'), 'print what was written, or where the page is served, as JSON', false)
    .action((model: string, photos: string[], flags: ExploreFlags) =>
      runExplore(terminal, model, photos, flags),
    );
  addFlags(command, EXPLORER_FIELDS, FLAGS);
  addPhotoFlags(command, ['transform', 'tiles']);
}

async function runExplore(
  terminal: Terminal,
  given: string,
  photos: readonly string[],
  flags: ExploreFlags,
): Promise<void> {
  if (flags.out === undefined && flags.layer !== undefined)
    throw invalidOption('--cam', 'left out without --out: a served page draws it on demand', flags.layer);
  if (flags.out === undefined && flags.time)
    throw invalidOption('--time', 'left out without --out: a served page measures it on demand', true);
  const path = await findModelFile(given, terminal, flags.yes);
  const labels = await readLabelsFlag(flags.labels);
  if (flags.out === undefined) return serve(terminal, path, photos, { ...flags, labels });
  const { out } = flags;
  const written = await withProgressLine(terminal, (watch) =>
    writeExplorer(path, {
      ...readFlags(EXPLORER_FIELDS, flags),
      out,
      photos,
      labels,
      tiles: flags.tiles,
      ...watch,
    }),
  );
  for (const problem of written.problems) terminal.err(`note: ${shown(problem)}\n`);
  if (flags.json) printJson(terminal, written);
  else terminal.out(`${shown(written.path)}: ${formatBytes(written.bytes)}\n`);
}

/** Serves the page until it is stopped, which is a success. */
async function serve(
  terminal: Terminal,
  path: string,
  photos: readonly string[],
  {
    port,
    open,
    json,
    device,
    returnNodes: names = [],
    labels,
    tiles,
    ...flags
  }: Omit<ExploreFlags, 'labels'> & Pick<ExplorerOptions, 'labels'>,
): Promise<void> {
  await using explorer = await Explorer.open(path, path, {
    ...readFlags(TRANSFORM_FIELDS, flags),
    labels,
    tiles,
    device,
  });
  const picked = names.length === 0 ? [] : (await explorer.pick(names)).map(({ id }) => id);
  for (const photo of photos) await explorer.addPhoto(photo, basename(photo));
  const onError = (error: unknown): void => terminal.err(messageOf(error));
  const served = await serveExplorer(explorer, { port, picked, folder: process.cwd(), onError });
  await showPage(terminal, served, { open, json });
}
