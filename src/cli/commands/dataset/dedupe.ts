/** `tapir dedupe`: lists the near-duplicates of a dataset. */
import { type Command } from 'commander';
import { openDataset } from '../../../datasets/files/dataset.js';
import { readDevice, type Device } from '../../../runtime/lanes/device.js';
import type { DuplicateGroup, DuplicateImage } from '../../../features/dedupe/describe-groups.js';
import {
  DUPLICATE_DEFAULTS,
  findDuplicates,
  type Duplicates,
} from '../../../features/dedupe/find-duplicates.js';
import { chooseKey } from '../../../features/search/search-dataset.js';
import { parseNumber } from '../../flags/flag-values.js';
import { createProgressLine } from '../../terminal/progress-view.js';
import { formatTable } from '../../terminal/table.js';
import type { Terminal } from '../../terminal/terminal.js';

interface DedupeFlags {
  readonly cosine: number;
  readonly output?: string;
  readonly device: string;
  readonly json: boolean;
}

/** Adds `tapir dedupe`. */
export function addDedupeCommand(program: Command, terminal: Terminal): void {
  program
    .command('dedupe')
    .description('list the near-duplicates of a dataset, exactly, and the best copy of each; deletes nothing')
    .argument('<dataset>', 'folder that tapir embed has written')
    .option(
      '--cosine <c>',
      'images are near-duplicates from this cosine on; above 0, at most 1',
      parseNumber,
      DUPLICATE_DEFAULTS.cosine,
    )
    .option('--output <key>', 'output key of the features; required if the dataset has several')
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto', 'cpu')
    .option('--json', 'print JSON', false)
    .action((folder: string, flags: DedupeFlags) => runDedupe(terminal, folder, flags));
}

async function runDedupe(terminal: Terminal, folder: string, flags: DedupeFlags): Promise<void> {
  const { signal } = terminal;
  // Checked here as well, so that the error names the flag.
  readDevice('--device', flags.device);
  const dataset = await openDataset(folder);
  const view = createProgressLine(terminal);
  const found = await findDuplicates(dataset, {
    key: chooseKey(dataset, flags.output, '--output'),
    cosine: flags.cosine,
    device: flags.device as Device,
    signal,
    onProgress: view.show,
  }).finally(view.end);
  if (flags.json) terminal.out(`${JSON.stringify({ dataset: folder, ...found }, null, 2)}\n`);
  else terminal.out([...found.groups.map(describeGroup), summarize(found)].join('\n'));
}

/** A table of the best copy and the others. */
function describeGroup({ best, copies }: DuplicateGroup): string {
  const row = (first: string, image: DuplicateImage): string[] => [
    first,
    image.width === null ? '' : `${image.width}×${image.height}`,
    String(image.row),
    image.path ?? '(bytes)',
  ];
  const rows = copies.map((copy) => row(copy.cosine.toFixed(6), copy));
  return formatTable([['cosine', 'pixels', 'row', 'path'], row('best', best), ...rows], [0, 1, 2]);
}

function summarize({ groups, compared, cosine, skipped }: Duplicates): string {
  const copies = groups.reduce((sum, group) => sum + group.copies.length, 0);
  const { zero, notFinite } = skipped;
  const left =
    zero + notFinite === 0 ? '' : `; left out: ${zero} of zeros, ${notFinite} with a NaN or an infinity`;
  return `${compared} images, ${groups.length} groups, ${copies} copies beside the best (cosine ≥ ${cosine})${left}\n`;
}
