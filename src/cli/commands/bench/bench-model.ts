/** `tapir bench model`: the batch size, the engine and the precision at which a model is fastest. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import { Option, type Command } from 'commander';
import { TRANSFORM_FIELDS } from '../../../photos/feeds/choose-transform.js';
import { invalidOption } from '../../../base/checks.js';
import { reasonOf } from '../../../base/errors.js';
import {
  MEASURE_MODEL_FIELDS,
  measureModel,
  type BatchMeasurement,
  type MeasuredWay,
  type MeasureModelOptions,
  type MeasureModelReport,
} from '../../measure/measure-model.js';
import { readDevice, type Device } from '../../../run/runtime/lanes/device.js';
import {
  bindingFor,
  describePrecision,
  ENGINES,
  enginePrecision,
  lackOf,
  PRECISIONS,
  type BindingName,
  type EngineName,
  type Precision,
} from '../../../run/runtime/capabilities/capabilities.js';
import { LANE_FIELDS } from '../../../run/runtime/lanes/lane-options.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { outputNodes } from '../../../extract/prune-source.js';
import { openModel } from '../../../run/model/open/open-model.js';
import type { ReturnNodes } from '../../../run/model/open/return-nodes.js';
import { pruneModel } from '../../../run/model/oracle/prune-model.js';
import { inPrecision } from '../../../products/precision/lowering/lower-precision.js';
import { roundDown } from '../../terminal/lowering-text.js';
import { FLOAT32 } from '../../measure/check-photos.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { addPartFlags, readPartFlags, type PartFlags } from '../../flags/part-flags.js';
import { readReturnFlags, RETURN_HELP } from '../../flags/return-flags.js';
import { collect } from '../../flags/flag-values.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';
import { addSettings } from '../../flags/settings.js';

export interface BenchModelFlags
  extends CommonFlags, PhotoFlags, PartFlags, Pick<MeasureModelOptions, 'batches' | 'sessions' | 'seconds'> {
  readonly return?: readonly string[];
  readonly device: string;
  readonly devices?: string;
  readonly engine: EngineName | 'all';
  readonly binding: BindingName;
  readonly precision: Precision | 'all';
  readonly photos?: string;
}

export function addBenchModelCommand(bench: Command, terminal: Terminal): void {
  const command = bench
    .command('model')
    .description('find the batch size at which a model is fastest, on random input')
    .argument('<model>', MODEL_HELP)
    .option(rare(YES_FLAG), YES_HELP, false)
    .option('--return <name[=key]>', `${RETURN_HELP} (default: the graph outputs)`, collect)
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto', 'cpu')
    .addOption(
      new Option(
        '--devices <list>',
        'several devices, which take whole batches: cuda:0,cuda:1, or all for every GPU',
      ).conflicts('device'),
    )
    .addOption(
      new Option('--engine <name>', `${LANE_FIELDS.engine.about}; all compares them`)
        .choices([...ENGINES, 'all'])
        .default(LANE_FIELDS.engine.fallback),
    )
    .addOption(
      new Option('--precision <type>', `${LANE_FIELDS.precision.about}; all compares them`)
        .choices([...PRECISIONS, 'all'])
        .default(LANE_FIELDS.precision.fallback),
    )
    .option('--photos <source>', 'with all: folder of photos on which the cosine to float32 is measured')
    .option('--json', 'print JSON', false)
    .action((model: string, flags: BenchModelFlags) => runBenchModel(terminal, model, flags));
  addFlags(command, MEASURE_MODEL_FIELDS, {
    batches: '--batches <list>',
  });
  addSettings(command, MEASURE_MODEL_FIELDS, ['binding', 'sessions', 'seconds']);
  addPhotoFlags(command, ['transform'], 'with --photos: ');
  addPartFlags(command);
}

export async function runBenchModel(terminal: Terminal, path: string, flags: BenchModelFlags): Promise<void> {
  const { seconds, json, engine, precision } = flags;
  const isComparison = engine === 'all' || precision === 'all';
  const columns = isComparison
    ? [...WAY_COLUMNS, ...SIZE_COLUMNS, RATIO]
    : [...SIZE_COLUMNS, ...TIME_COLUMNS];
  let firstRate: number | undefined;
  const names = namesOf(flags);
  // Checked here as well, so that the error names the flag.
  for (const name of names) readDevice(flags.devices === undefined ? '--device' : '--devices', name);
  const file = await findModelFile(path, terminal, flags.yes);
  const nodes = flags.return ? readReturnFlags(flags.return) : outputNodes(await openModel(file));
  // The first row may take a while.
  if (!json) terminal.err('measuring: a row follows for each batch size\n');
  const measure = (engine: EngineName, precision: Precision): Promise<MeasureModelReport> =>
    measureModel(file, nodes, readPartFlags(flags), {
      ...readFlags(MEASURE_MODEL_FIELDS, flags),
      devices: names as Device[],
      engine,
      binding: flags.engine === 'all' ? bindingFor(engine, flags.binding) : flags.binding,
      precision,
      signal: terminal.signal,
      onMeasured(measured, way) {
        if (json) return;
        if (firstRate === undefined) terminal.out(lineOf(columns, ({ title }) => title));
        const first = (firstRate ??= measured.rowsPerSecond.median);
        // Measuring takes minutes, and a stop keeps what was printed.
        terminal.out(lineOf(columns, ({ cell }) => cell({ ...way, ...measured, firstRate: first })));
      },
    });
  if (flags.photos !== undefined && !isComparison)
    throw invalidOption('--photos', 'left out without --engine all or --precision all', flags.photos);
  const facts = { model: path, return: flags.return ?? null, seconds };
  if (!isComparison) {
    const report = await measure(engine, precision);
    if (json) printJson(terminal, { ...facts, ...report });
    else terminal.out(resultText(report));
    return;
  }
  const tryWay = async (engine: EngineName, asked: Precision): Promise<Way> => {
    try {
      const report = await measure(engine, asked);
      if (flags.photos === undefined) return { asked, ...report, cosine: null };
      const cosine = await measureCosine(terminal, file, nodes, engine, asked, flags);
      if (!json) terminal.out(cosineText(report, cosine));
      return { asked, ...report, cosine };
    } catch (error) {
      if (lackOf(error) === undefined) throw error;
      return { engine, precision: asked, impossible: reasonOf(error) };
    }
  };
  const compared: Way[] = [];
  try {
    for (const one of engine === 'all' ? ENGINES : [engine])
      for (const how of precision === 'all' ? PRECISIONS : [precision]) compared.push(await tryWay(one, how));
  } finally {
    if (json) printJson(terminal, { ...facts, compared });
  }
  if (!json) terminal.out(conclusionOf(compared));
}

function namesOf({ device, devices }: BenchModelFlags): string[] {
  return devices === undefined ? [device] : devices.split(',');
}

/** A way to run the model: what was measured, or why it is not possible here. */
type Way =
  | (MeasureModelReport & {
      /** The flag `--precision` for it. */
      readonly asked: Precision;
      readonly cosine: MeasuredCosine | null;
    })
  | { readonly engine: EngineName; readonly precision: Precision; readonly impossible: string };

/** How near a way is to float32. */
interface MeasuredCosine {
  readonly images: number;
  /** The least cosine of any output of any image. */
  readonly least: number;
  /** The least mean of any output. */
  readonly mean: number;
}

/** Photos that the cosine is measured on. */
const PHOTOS = 64;

/** Compares a way with ONNX Runtime in float32, on photos. */
async function measureCosine(
  terminal: Terminal,
  file: string,
  nodes: ReturnNodes,
  engine: EngineName,
  precision: Precision,
  flags: BenchModelFlags,
): Promise<MeasuredCosine> {
  const device = namesOf(flags)[0] as Device;
  const pruned = await pruneModel(file, nodes, readPartFlags(flags));
  const lowered = await inPrecision(pruned, precision, engine);
  const way = { device, engine, precision: enginePrecision(precision), outputDtype: 'keep' } as const;
  await using exact = await createFeatureExtractor(pruned, undefined, {
    ...FLOAT32,
    device,
    outputDtype: 'keep',
  });
  await using other = await createFeatureExtractor(lowered, undefined, way);
  const options = {
    ...readFlags(TRANSFORM_FIELDS, flags),
    sample: PHOTOS,
    neighbours: 1,
    signal: terminal.signal,
  };
  const { compareModels } = await import('../../../products/precision/compare/compare-models.js');
  const { outputs } = await compareModels(exact, other, flags.photos!, options);
  const cosines = outputs.flatMap(({ cosine }) => cosine ?? []);
  return {
    images: outputs[0]!.images,
    least: Math.min(...cosines.map(({ least }) => least)),
    mean: Math.min(...cosines.map(({ mean }) => mean)),
  };
}

/** A column of the table. Lines are printed one by one, so widths are fixed. */
interface Column {
  readonly title: string;
  readonly width: number;
  /** Names are aligned to the left. */
  readonly isName?: boolean;
  readonly cell: (measured: BatchMeasurement & MeasuredWay & { readonly firstRate: number }) => string;
}

const WAY_COLUMNS: readonly Column[] = [
  { title: 'engine', width: 11, isName: true, cell: ({ engine }) => engine },
  { title: 'precision', width: 17, isName: true, cell: describePrecision },
];
const SIZE_COLUMNS: readonly Column[] = [
  { title: 'batch', width: 5, cell: ({ rows }) => String(rows) },
  { title: 'sessions', width: 8, cell: ({ sessionsPerDevice }) => String(sessionsPerDevice) },
  { title: 'images/s', width: 9, cell: rateText },
  { title: 'min', width: 9, cell: ({ rowsPerSecond }) => rowsPerSecond.min.toFixed(1) },
  { title: 'max', width: 9, cell: ({ rowsPerSecond }) => rowsPerSecond.max.toFixed(1) },
];
const TIME_COLUMNS: readonly Column[] = [
  { title: 'ms per run', width: 10, cell: ({ msPerRun }) => msPerRun.toFixed(1) },
  { title: 'first ms', width: 8, cell: ({ firstMs }) => firstMs.toFixed(1) },
];
/** To the first measurement. */
const RATIO: Column = {
  title: '×',
  width: 5,
  cell: ({ rowsPerSecond, firstRate }) => (rowsPerSecond.median / firstRate).toFixed(2),
};

function lineOf(columns: readonly Column[], textOf: (column: Column) => string): string {
  const cells = columns.map((column) => {
    const text = textOf(column);
    return column.isName === true ? text.padEnd(column.width) : text.padStart(column.width);
  });
  return `${cells.join('  ')}\n`;
}

function cosineText(way: MeasuredWay, { images, least, mean }: MeasuredCosine): string {
  return `${way.engine} ${describePrecision(way)} against float32 on ${images} photos: least cosine ${roundDown(least)}, mean ${roundDown(mean)}\n`;
}

function conclusionOf(ways: readonly Way[]): string {
  // What an engine lacks can be the same for each precision.
  const notes = new Set(ways.flatMap((way) => ('impossible' in way ? [`note: ${way.impossible}\n`] : [])));
  const [fastest] = ways
    .flatMap((way) => ('impossible' in way ? [] : [way]))
    .toSorted((a, b) => b.best.rowsPerSecond.median - a.best.rowsPerSecond.median);
  if (!fastest) return [...notes].join('');
  const { asked, precision, cosine } = fastest;
  const caution =
    precision === 'float32'
      ? ''
      : `note: ${precision} changes features; ${cosine ? '' : '--photos measures how much here, and '}"tapir embed" measures it on your first images (--set minCosine=… sets a limit)\n`;
  return [`\nfastest here: ${choiceOf(fastest, asked)}\n`, caution, ...notes].join('');
}

/** The flags of the fastest way, and of the best batch. */
function choiceOf({ engine, binding, best }: MeasureModelReport, precision: Precision): string {
  const called = binding === null ? '' : ` --set binding=${binding}`;
  return `--engine ${engine}${called} --precision ${precision} --batch ${best.rows} --set sessions=${best.sessionsPerDevice}`;
}

function resultText(report: MeasureModelReport): string {
  const { devices, measured, best, precision, notes } = report;
  const most = Math.max(...measured.map(({ rowsPerSecond }) => rowsPerSecond.median));
  const sessions = best.sessionsPerDevice === 1 ? '' : ` with ${best.sessionsPerDevice} sessions per device`;
  return [
    `\nbatch ${best.rows}${sessions} on ${devices.join(', ')}: ${rateText(best)} images/s`,
    `, the smallest within 3 % of the most (${most.toFixed(1)})\n`,
    `fastest here: ${choiceOf(report, precision)}\n`,
    ...notes.map((note) => `note: ${note}\n`),
  ].join('');
}

function rateText({ rowsPerSecond }: BatchMeasurement): string {
  return rowsPerSecond.median.toFixed(1);
}
