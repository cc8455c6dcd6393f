/** `tapir bench embed`: the speed of decoding, of the model, and of both together, and where the time goes. */
import { addPhotoFlags } from '../../flags/photo-flags.js';
import type { Command } from 'commander';
import {
  MEASURE_EMBEDDING_FIELDS,
  measureEmbedding,
  type EmbeddingReport,
  type Throughput,
} from '../../measure/measure-embedding.js';
import { counted } from '../../../base/printable.js';
import { chooseModelTransform } from '../../../photos/feeds/model-transform.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { measureModel } from '../../measure/measure-model.js';
import { findModelFile } from '../../flags/find-model.js';
import {
  openExtractor,
  readDeviceFlags,
  readSessionsFlag,
  type ExtractorFlags,
  type SettledFlags,
} from '../../flags/open-extractor.js';
import { settleForm } from '../../flags/form-flags.js';
import { readPartFlags } from '../../flags/part-flags.js';
import { readReturnFlags } from '../../flags/return-flags.js';
import { formatBytes } from '../../../base/html/numbers.js';
import { formatTable } from '../../terminal/table.js';
import { addExtractorFlags } from '../../flags/extractor-flags.js';
import { parseCount } from '../../flags/flag-values.js';
import { readFlags } from '../../flags/option-flags.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { addSettings } from '../../flags/settings.js';

export interface BenchEmbedFlags extends ExtractorFlags {
  readonly batch: number;
  readonly decodeThreads: number;
  readonly seconds: number;
  readonly rounds: number;
  readonly json: boolean;
}

export function addBenchEmbedCommand(bench: Command, terminal: Terminal): void {
  const command = bench
    .command('embed')
    .description('measure decoding, the model, and both together, and show where the time goes')
    .argument('<source>', 'folder of images, searched recursively; read repeatedly')
    .optionsGroup('Measurement:')
    .option(
      '--batch <n>',
      'images per run; 0 tries several sizes first, which takes minutes for a large model',
      parseCount,
      0,
    )
    .option('--json', 'print JSON', false)
    .action((source: string, flags: BenchEmbedFlags) => runBenchEmbed(terminal, source, flags));
  addSettings(command, MEASURE_EMBEDDING_FIELDS, ['seconds', 'rounds']);
  addPhotoFlags(command, ['clips']);
  addExtractorFlags(command);
}

export async function runBenchEmbed(
  terminal: Terminal,
  source: string,
  given: BenchEmbedFlags,
): Promise<void> {
  const say = (text: string): void => {
    if (terminal.isTerminal || !given.json) terminal.err(`${text}\n`);
  };
  const path = await findModelFile(given.model, terminal, given.yes);
  const model = await openModel(path);
  const transform = chooseModelTransform(given.transform, model).with({ decode: given.decode });
  const { clips } = given;
  const flags = settleForm(terminal, given, model, readDeviceFlags(given));
  const batch = flags.batch || (await findBatch(terminal, model, flags, say));
  await using extractor = await openExtractor(model, flags, transform);
  const report = await measureEmbedding(extractor, source, {
    ...readFlags(MEASURE_EMBEDDING_FIELDS, flags),
    transform,
    clips,
    batch,
    signal: terminal.signal,
    onProgress: ({ what }) => say(what!),
  });
  if (flags.json) printJson(terminal, report);
  else terminal.out(textOf(report, terminal.columns));
}

async function findBatch(
  { signal }: Terminal,
  model: OnnxModel,
  flags: BenchEmbedFlags & SettledFlags,
  say: (text: string) => void,
): Promise<number> {
  say('looking for the fastest batch, which --batch states');
  const devices = readDeviceFlags(flags);
  const { engine, precision } = flags;
  const sessions = [readSessionsFlag(flags, devices)];
  const { best } = await measureModel(model, readReturnFlags(flags.return), readPartFlags(flags), {
    devices,
    engine,
    binding: 'auto',
    precision,
    batches: undefined,
    sessions,
    seconds: 1,
    signal,
    onMeasured: ({ rows, rowsPerSecond }) =>
      say(`batches of ${rows}: ${rowsPerSecond.median.toFixed(1)} images/s`),
  });
  return best.rows;
}

/** Rounds of a quiet machine are nearer to each other. */
const STEADY = 0.2;

/** The time for ten million photos, in hours with two digits. */
function machineHours({ imagesPerSecond }: Throughput): string {
  return Number((1e7 / imagesPerSecond / 3600).toPrecision(2)).toLocaleString('en-US');
}

function textOf(report: EmbeddingReport, columns: number | undefined): string {
  const { decode, decodePerThread, model, endToEnd, busy, spent } = report;
  const row = (what: string, { imagesPerSecond, cpuSecondsPerImage }: Throughput): string[] => [
    what,
    imagesPerSecond.toFixed(1),
    (1000 * cpuSecondsPerImage).toFixed(2),
  ];
  const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
  const threads = report.decodeThreads === 1 ? '1 thread' : `${report.decodeThreads} threads`;
  return [
    `${counted(report.images, 'image')}, batches of ${report.batch}, on ${report.device}\n\n`,
    formatTable(
      [
        ['', 'images/s', 'CPU-ms per image'],
        row('decoding, 1 thread', decodePerThread),
        row(`decoding, ${threads}`, decode),
        row('the model', model),
        row('end to end', endToEnd),
      ],
      { columns, right: [1, 2] },
    ),
    `\n${percent(report.ofLimit)} of what both could reach together (${report.limit.toFixed(1)} images/s); `,
    `${report.limitedBy} is the limit\n`,
    `10 million photos: about ${machineHours(endToEnd)} machine hours here\n`,
    report.spread > STEADY
      ? `unsteady: speeds end to end lie ${percent(report.spread)} apart; end other programs, and measure for longer (--set seconds=…)\n`
      : '',
    `CPU time: ${percent(report.cpuOfParts)} of decoding and the model alone\n`,
    `busy: the main thread ${percent(busy.main)}, the device ${busy.devices.map(percent).join(', ')}\n`,
    `a thread’s milliseconds per image: read and decode ${spent.decode.toFixed(2)}, resize ${spent.resample.toFixed(2)}, `,
    `make the feed ${spent.feed.toFixed(2)}, model ${spent.model.toFixed(2)}\n`,
    `peak memory ${formatBytes(report.peakMemoryBytes)}\n`,
  ].join('');
}
