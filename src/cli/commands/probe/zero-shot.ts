/** `tapir probe --zero-shot`: labels from words alone, and how many are right. */
import { shown } from '../../../base/printable.js';
import { NO_LABEL, readLabels } from '../../../datasets/labels/labels.js';
import { classifyZeroShot, type ZeroShotLabel } from '../../../products/features/search/zero-shot.js';
import { invalidOption } from '../../../base/checks.js';
import { openDataset, type Dataset } from '../../../datasets/files/dataset.js';
import { findTextModels, type TextModelFlags } from '../../flags/find-text-models.js';
import { readFlagFile } from '../../flags/flag-values.js';
import { formatTable } from '../../terminal/table.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

export interface ZeroShotFlags extends TextModelFlags {
  readonly labels?: string;
  readonly zeroShot?: string;
  readonly templates?: string;
  readonly key: string | undefined;
  readonly json: boolean;
}

/** How many labels are those of `--labels`. */
interface Agreement {
  readonly images: number;
  readonly right: number;
  readonly accuracy: number;
}

/** Labels each image of a dataset, and compares the labels with given ones. */
export async function runZeroShot(
  terminal: Terminal,
  folder: string,
  file: string,
  flags: ZeroShotFlags,
): Promise<void> {
  if (flags.model === undefined && flags.textModel === undefined)
    throw invalidOption(
      '--text-model',
      'given for labels, or --model with a text tower beside it',
      undefined,
    );
  const classes = await readLines('--zero-shot', file);
  const templates =
    flags.templates === undefined ? undefined : await readLines('--templates', flags.templates);
  const dataset = await openDataset(folder);
  const found = await classifyZeroShot(dataset, classes, {
    key: flags.key,
    ...(await findTextModels(flags, terminal)),
    templates,
    signal: terminal.signal,
  });
  const agreement = flags.labels === undefined ? null : await compare(terminal, dataset, flags.labels, found);
  if (flags.json) printJson(terminal, { dataset: folder, agreement, labels: found });
  else terminal.out(describe(found, agreement, terminal.columns));
}

async function compare(
  terminal: Terminal,
  dataset: Dataset,
  source: string,
  found: readonly ZeroShotLabel[],
): Promise<Agreement> {
  const { classes, ofRow, warnings } = await readLabels(dataset, source);
  for (const warning of warnings) terminal.err(`note: ${shown(warning)}\n`);
  const labelled = found.filter(({ row }) => ofRow[row] !== NO_LABEL);
  const right = labelled.filter(({ row, label }) => classes[ofRow[row]!] === label).length;
  return { images: labelled.length, right, accuracy: right / labelled.length };
}

function describe(
  found: readonly ZeroShotLabel[],
  agreement: Agreement | null,
  columns: number | undefined,
): string {
  const rows = found.map(({ label, probability, score, path }) => [
    label,
    probability.toFixed(4),
    score.toPrecision(6),
    path ?? '(bytes)',
  ]);
  const layout = { columns, right: [1, 2], names: [0, 3], spare: [2, 1] };
  const table = formatTable([['label', 'probability', 'cosine', 'path'], ...rows], layout);
  if (agreement === null) return table;
  const { accuracy, right, images } = agreement;
  return `${table}\naccuracy ${accuracy.toFixed(4)} (${right} of ${images} labelled images)\n`;
}

/** The lines of a text file that are not empty. */
async function readLines(flag: string, file: string): Promise<string[]> {
  const text = await readFlagFile(flag, file);
  const lines = text
    .toString()
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  if (lines.length > 0) return lines;
  throw invalidOption(flag, 'a file with one entry per line', file);
}
