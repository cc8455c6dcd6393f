/** `tapir compare`: two models on the same photos. */
import { addPhotoFlags, type PhotoFlags } from '../flags/photo-flags.js';
import { counted, shown } from '../../base/printable.js';
import type { Command } from 'commander';
import {
  COMPARE_FIELDS,
  compareModels,
  type CompareOptions,
} from '../../products/precision/compare/compare-models.js';
import type { Agreement } from '../../products/precision/compare/compare-outputs.js';
import type { ModelComparison } from '../../products/precision/compare/comparison.js';
import {
  describeAgreement,
  describePixels,
  formatCosine,
} from '../../products/precision/compare/describe-comparison.js';
import { formatShare, formatShareOf, formatValue } from '../../base/html/numbers.js';
import { findModelFile, YES_FLAG, YES_HELP, type CommonFlags } from '../flags/find-model.js';
import { collect } from '../flags/flag-values.js';
import { readReturnFlags } from '../flags/return-flags.js';
import { EXIT } from '../terminal/exit-code.js';
import { formatTable } from '../terminal/table.js';
import { addFlags, readFlags } from '../flags/option-flags.js';
import { withProgressLine } from '../terminal/progress-view.js';
import type { Terminal } from '../terminal/terminal.js';
import { rare } from '../flags/rare.js';
import { addSettings } from '../flags/settings.js';

interface CompareFlags
  extends
    CommonFlags,
    PhotoFlags,
    Pick<CompareOptions, 'sample' | 'neighbours' | 'batch' | 'device' | 'out'> {
  readonly return?: readonly string[];
  readonly returnB?: readonly string[];
  readonly transformB?: string;
}

const WORST_SHOWN = 3;

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('compare')
    .description('embed the same photos with two models, and measure how far their vectors agree')
    .argument('<a>', 'ONNX file of the reference')
    .argument('<b>', 'ONNX file to judge, such as a quantised file or a new export')
    .argument('<photos>', 'folder, list, archive or pattern of images')
    .option(rare(YES_FLAG), YES_HELP, false)
    .option(
      '--return <name[=key]>',
      'what to return from both; repeatable (default: the graph outputs)',
      collect,
    )
    .option('--return-b <name[=key]>', 'what to return from B, if its names differ; repeatable', collect)
    .option('--transform-b <name>', 'preprocessing for B, if it differs')
    .option('--json', 'print JSON', false)
    .action((a: string, b: string, photos: string, flags: CompareFlags) =>
      runCompare(terminal, [a, b, photos], flags),
    );
  addSettings(command, COMPARE_FIELDS, ['sample', 'neighbours', 'batch']);
  addFlags(command, COMPARE_FIELDS, {
    device: '--device <device>',
    out: '-o, --out <file>',
  });
  addPhotoFlags(command, ['transform']);
}

async function runCompare(
  terminal: Terminal,
  [a, b, photos]: readonly [string, string, string],
  flags: CompareFlags,
): Promise<void> {
  const { transformB, out, json } = flags;
  const find = (model: string): Promise<string> => findModelFile(model, terminal, flags.yes);
  const sideB = {
    model: await find(b),
    returnNodes: flags.returnB && readReturnFlags(flags.returnB),
    transform: transformB,
  };
  const sideA = await find(a);
  const found = await withProgressLine(terminal, (watch) =>
    compareModels(sideA, sideB, photos, {
      ...readFlags(COMPARE_FIELDS, flags),
      returnNodes: flags.return && readReturnFlags(flags.return),
      ...watch,
    }),
  );
  terminal.out(json ? `${JSON.stringify(found, jsonOfError, 2)}\n` : describe(found, terminal.columns));
  if (out !== undefined && !json) terminal.out(`page: ${shown(out)}\n`);
  if (found.failures.length > 0) terminal.exitCode = EXIT.someFailed;
}

/** An error as its code and message: JSON.stringify leaves out the fields of Error. */
function jsonOfError(_key: string, value: unknown): unknown {
  return value instanceof Error
    ? { code: (value as Error & { code?: string }).code, message: value.message }
    : value;
}

function describe(found: ModelComparison, columns: number | undefined): string {
  const { a, b, seen, sampled, failures, outputs } = found;
  const blocks = outputs.map((output) => {
    const worst = output.worst
      .slice(0, WORST_SHOWN)
      .map(({ path, cosine }) => `  least alike: ${formatCosine(cosine)}  ${shown(path ?? '(bytes)')}\n`);
    return `${shown(output.key)}: ${describeAgreement(output)}\n${tableOf(output, output.onPixelsOfA, columns)}${worst.join('')}`;
  });
  const failed = failures
    .slice(0, WORST_SHOWN)
    .map(({ path, error }) => `  ${shown(path ?? '(bytes)')}: ${shown(error.message)}\n`);
  const lines = [
    `A: ${shown(a.file)}\nB: ${shown(b.file)}\n${sampled} of ${counted(seen, 'image')}\n\n`,
    `${blocks.join('\n')}\n`,
    ...describePixels(found).map((line) => `${shown(line)}\n`),
    ...(failures.length > 0
      ? [`${counted(failures.length, 'image')} could not be embedded:\n`, ...failed]
      : []),
  ];
  return lines.join('');
}

function tableOf(own: Agreement, onPixelsOfA: Agreement | null, columns: number | undefined): string {
  const compared = onPixelsOfA ? [own, onPixelsOfA] : [own];
  const recall = own.recall ? `recall@${own.recall.neighbours}` : 'recall';
  const rows: (readonly [string, (agreement: Agreement) => string])[] = [
    ['mean cosine', ({ cosine }) => (cosine ? formatCosine(cosine.mean) : '–')],
    ['least cosine', ({ cosine }) => (cosine ? formatCosine(cosine.least) : '–')],
    [
      'largest difference',
      ({ maxDifference }) => (maxDifference === null ? '–' : formatValue(maxDifference)),
    ],
    [recall, (one) => (one.recall ? formatShare(one.recall.mean) : 'needs vectors of more images')],
    ...(own.top1 === null
      ? []
      : [
          [
            'same class on top',
            ({ top1, images }: Agreement) => (top1 === null ? '–' : formatShareOf(top1, images)),
          ] as const,
        ]),
  ];
  const head = onPixelsOfA ? [['', 'own pixels', 'pixels of A']] : [];
  const body = rows.map(([name, show]) => [`  ${name}`].concat(compared.map(show)));
  return formatTable([...head, ...body], { columns, right: [1, 2], spare: [2] });
}
