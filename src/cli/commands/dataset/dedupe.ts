/** `tapir dedupe`: lists the near-duplicates of a dataset. */
import { counted } from '../../../base/printable.js';
import { type Command } from 'commander';
import { openDataset } from '../../../datasets/files/dataset.js';
import { hasParts } from '../../../datasets/labels/live-rows.js';
import type { DuplicateGroup, DuplicateImage } from '../../../products/features/dedupe/describe-groups.js';
import {
  DUPLICATE_FIELDS,
  findDuplicates,
  type DuplicateOptions,
  type Duplicates,
} from '../../../products/features/dedupe/find-duplicates.js';
import { chooseKey } from '../../../products/features/search/search-dataset.js';
import { partName } from '../../../photos/images/pixels/tile-grid.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { withProgressLine } from '../../terminal/progress-view.js';
import { formatTable } from '../../terminal/table.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface DedupeFlags extends Pick<DuplicateOptions, 'cosine' | 'key' | 'where' | 'device'> {
  readonly json: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('dedupe')
    .description('list the near-duplicates of a dataset, exactly, and the best copy of each; deletes nothing')
    .argument('<dataset>', 'folder that tapir embed has written')
    .option('--json', 'print JSON', false)
    .action((folder: string, flags: DedupeFlags) => runDedupe(terminal, folder, flags));
  addFlags(command, DUPLICATE_FIELDS, {
    cosine: '--cosine <c>',
    key: '--output <key>',
    where: '--where <label>',
    device: '--device <device>',
  });
}

async function runDedupe(terminal: Terminal, folder: string, flags: DedupeFlags): Promise<void> {
  const dataset = await openDataset(folder);
  const key = chooseKey(dataset, flags.key);
  const found = await withProgressLine(terminal, (watch) =>
    findDuplicates(dataset, { ...readFlags(DUPLICATE_FIELDS, flags), key, ...watch }),
  );
  if (flags.json) printJson(terminal, { dataset: folder, ...found });
  else
    terminal.out(
      [
        ...found.groups.map((group) => describeGroup(group, terminal.columns)),
        summarize(found, hasParts(dataset) ? 'row' : 'image'),
      ].join('\n'),
    );
}

function describeGroup({ best, copies }: DuplicateGroup, columns: number | undefined): string {
  const row = (first: string, image: DuplicateImage): string[] => [
    first,
    image.width === null ? '' : `${image.width}×${image.height}`,
    String(image.row),
    (image.path ?? '(bytes)') + partName(image),
  ];
  const rows = copies.map((copy) => row(copy.cosine.toFixed(6), copy));
  const layout = { columns, right: [0, 1, 2], names: [3], spare: [2, 1] };
  return formatTable([['cosine', 'pixels', 'row', 'path'], row('best', best), ...rows], layout);
}

function summarize({ groups, compared, cosine, skipped }: Duplicates, noun: string): string {
  const copies = groups.reduce((sum, group) => sum + group.copies.length, 0);
  const { zero, notFinite } = skipped;
  const left =
    zero + notFinite === 0 ? '' : `; left out: ${zero} of zeros, ${notFinite} with a NaN or an infinity`;
  return `${counted(compared, noun)}, ${counted(groups.length, 'group')}, ${counted(copies, 'copy', 'copies')} beside the best (cosine ≥ ${cosine})${left}\n`;
}
