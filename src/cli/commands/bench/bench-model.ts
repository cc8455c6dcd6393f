/** `tapir bench model`: the batch size, the engine and the precision at which a model is fastest. */
import { Option, type Command } from 'commander';
import { invalidOption } from '../../../base/checks.js';
import { reasonOf } from '../../../base/errors.js';
import {
  MEASURE_MODEL_FIELDS,
  measureModel,
  type BatchMeasurement,
  type MeasureModelOptions,
  type MeasureModelReport,
} from '../../measure/measure-model.js';
import { readDevice, type Device } from '../../../runtime/lanes/device.js';
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
} from '../../../runtime/capabilities/capabilities.js';
import { LANE_FIELDS } from '../../../runtime/lanes/lane-options.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { pruneModel } from '../../../model/oracle/prune-model.js';
import { inPrecision } from '../../../precision/lower-precision.js';
import { roundDown } from '../../terminal/lowering-text.js';
import { findModelFile, YES_FLAG, YES_HELP } from '../../flags/find-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { readPartFlags, type PartFlags } from '../../flags/part-flags.js';
import { readReturnFlags } from '../../flags/return-flags.js';
import { formatTable } from '../../terminal/table.js';
import { addPartFlags, MODEL_HELP, RETURN_HELP } from '../../flags/extractor-flags.js';
import { collect } from '../../flags/flag-values.js';
import type { Terminal } from '../../terminal/terminal.js';

export interface BenchModelFlags
  extends PartFlags, Pick<MeasureModelOptions, 'batches' | 'sessions' | 'seconds'> {
  readonly return: readonly string[];
  readonly device: string;
  readonly devices?: string;
  readonly engine: EngineName | 'all';
  readonly binding: BindingName;
  readonly precision: Precision | 'all';
  readonly photos?: string;
  readonly transform: string;
  readonly yes: boolean;
  readonly json: boolean;
}

/** Adds the command. */
export function addBenchModelCommand(bench: Command, terminal: Terminal): void {
  const command = bench
    .command('model')
    .description('find the batch size at which a model is fastest, on random input')
    .argument('<model>', MODEL_HELP)
    .option(YES_FLAG, YES_HELP, false)
    .requiredOption('--return <name[=key]>', RETURN_HELP, collect)
    .option('--device <device>', 'cpu, cuda, cuda:1, webgpu or auto', 'cpu')
    .addOption(
      new Option('--devices <list>', 'several devices, which take whole batches: cuda:0,cuda:1').conflicts(
        'device',
      ),
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
    .option('--transform <name>', 'with --photos: preprocessing; auto: the model’s own', 'auto')
    .option('--json', 'print JSON', false)
    .action((model: string, flags: BenchModelFlags) => runBenchModel(terminal, model, flags));
  addFlags(command, MEASURE_MODEL_FIELDS, {
    binding: '--binding <name>',
    batches: '--batches <list>',
    sessions: '--sessions <list>',
    seconds: '--seconds <n>',
  });
  addPartFlags(command);
}

/** Measures and reports. */
export async function runBenchModel(terminal: Terminal, path: string, flags: BenchModelFlags): Promise<void> {
  const { seconds, json } = flags;
  const names = namesOf(flags);
  // Checked here as well, so that the error names the flag.
  for (const name of names) readDevice(flags.devices === undefined ? '--device' : '--devices', name);
  const file = await findModelFile(path, terminal, flags.yes);
  const measure = (engine: EngineName, precision: Precision): Promise<MeasureModelReport> =>
    measureModel(file, readReturnFlags(flags.return), {
      ...readPartFlags(flags),
      ...readFlags(MEASURE_MODEL_FIELDS, flags),
      devices: names as Device[],
      engine,
      binding: flags.engine === 'all' ? bindingFor(engine, flags.binding) : flags.binding,
      precision,
      signal: terminal.signal,
      onMeasured: (measured) => {
        if (terminal.isTerminal) terminal.err(`batch ${measured.rows}: ${rateText(measured)} images/s\n`);
      },
    });
  const { engine, precision } = flags;
  if (flags.photos !== undefined && engine !== 'all' && precision !== 'all')
    throw invalidOption('--photos', 'left out without --engine all or --precision all', flags.photos);
  const facts = { model: path, return: flags.return, seconds };
  if (engine !== 'all' && precision !== 'all') {
    const report = await measure(engine, precision);
    terminal.out(json ? jsonText({ ...facts, ...report }) : reportText(report));
    return;
  }
  const compared: Way[] = [];
  const ways = compareWays(flags, measure, (engine, precision) =>
    flags.photos === undefined ? undefined : measureCosine(terminal, file, { engine, precision }, flags),
  );
  if (!json) terminal.out(lineOf(flags.photos === undefined ? COLUMNS : [...COLUMNS, ...COSINE_COLUMNS]));
  for await (const way of ways) {
    compared.push(way);
    // A comparison takes minutes, and a stop keeps what was measured.
    if (!json && !('impossible' in way)) terminal.out(rowOf(way, compared));
  }
  terminal.out(json ? jsonText({ ...facts, compared }) : conclusionOf(compared));
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
  { engine, precision }: { readonly engine: EngineName; readonly precision: Precision },
  flags: BenchModelFlags,
): Promise<MeasuredCosine> {
  const nodes = readReturnFlags(flags.return);
  const device = namesOf(flags)[0] as Device;
  const pruned = await pruneModel(file, nodes, readPartFlags(flags));
  const way = { device, engine, precision: enginePrecision(precision) };
  await using exact = await createFeatureExtractor(pruned, undefined, { device });
  await using other = await createFeatureExtractor(
    await inPrecision(pruned, precision, engine),
    undefined,
    way,
  );
  const options = { transform: flags.transform, sample: PHOTOS, neighbours: 1, signal: terminal.signal };
  const { compareModels } = await import('../../../precision/compare/compare-models.js');
  const { outputs } = await compareModels(exact, other, flags.photos!, options);
  const cosines = outputs.flatMap(({ cosine }) => cosine ?? []);
  return {
    images: outputs[0]!.images,
    least: Math.min(...cosines.map(({ least }) => least)),
    mean: Math.min(...cosines.map(({ mean }) => mean)),
  };
}

async function* compareWays(
  { engine, precision }: BenchModelFlags,
  measure: (engine: EngineName, precision: Precision) => Promise<MeasureModelReport>,
  cosineOf: (engine: EngineName, precision: Precision) => Promise<MeasuredCosine> | undefined,
): AsyncGenerator<Way> {
  for (const one of engine === 'all' ? ENGINES : [engine])
    for (const how of precision === 'all' ? PRECISIONS : [precision])
      try {
        yield { asked: how, ...(await measure(one, how)), cosine: (await cosineOf(one, how)) ?? null };
      } catch (error) {
        if (lackOf(error) === undefined) throw error;
        yield { engine: one, precision: how, impossible: reasonOf(error) };
      }
}

const COLUMNS = ['engine', 'precision', 'batch', 'sessions', 'images/s', 'min', 'max', '×'];
const COSINE_COLUMNS = ['least cosine', 'mean'];
/** Characters of the columns: names to the left, numbers to the right. */
const WIDTHS = [11, 17, 5, 8, 9, 9, 9, 5, 12, 8];

function lineOf(cells: readonly string[]): string {
  return `${cells.map((cell, i) => (i < 2 ? cell.padEnd(WIDTHS[i]!) : cell.padStart(WIDTHS[i]!))).join('  ')}\n`;
}

function measuredOf(ways: readonly Way[]): Exclude<Way, { readonly impossible: string }>[] {
  return ways.flatMap((way) => ('impossible' in way ? [] : [way]));
}

function rateOf({ best }: MeasureModelReport): number {
  return best.rowsPerSecond.median;
}

function rowOf(report: Exclude<Way, { readonly impossible: string }>, ways: readonly Way[]): string {
  const { engine, best, cosine } = report;
  return lineOf([
    engine,
    describePrecision(report),
    String(best.rows),
    String(best.sessionsPerDevice),
    rateText(best),
    best.rowsPerSecond.min.toFixed(1),
    best.rowsPerSecond.max.toFixed(1),
    (rateOf(report) / rateOf(measuredOf(ways)[0]!)).toFixed(2),
    ...(cosine ? [roundDown(cosine.least), roundDown(cosine.mean)] : []),
  ]);
}

function conclusionOf(ways: readonly Way[]): string {
  // What an engine lacks can be the same for each precision.
  const notes = new Set(ways.flatMap((way) => ('impossible' in way ? [`note: ${way.impossible}\n`] : [])));
  const [fastest] = measuredOf(ways).toSorted((a, b) => rateOf(b) - rateOf(a));
  if (!fastest) return [...notes].join('');
  const { engine, asked, precision, best, cosine } = fastest;
  const choice = `--engine ${engine} --precision ${asked} --batch ${best.rows} --sessions ${best.sessionsPerDevice}`;
  const caution =
    precision === 'float32'
      ? ''
      : `note: ${precision} changes features; ${cosine ? '' : '--photos measures how much here, and '}"tapir embed" measures it on your first images (--min-cosine sets a limit)\n`;
  return [`\nfastest here: ${choice}\n`, caution, ...notes].join('');
}

function reportText({ devices, measured, best, notes }: MeasureModelReport): string {
  const header = ['batch', 'sessions', 'images/s', 'min', 'max', 'ms per run', 'first ms', ''];
  const rows = measured.map((each) => [
    String(each.rows),
    String(each.sessionsPerDevice),
    rateText(each),
    each.rowsPerSecond.min.toFixed(1),
    each.rowsPerSecond.max.toFixed(1),
    each.msPerRun.toFixed(1),
    each.firstMs.toFixed(1),
    each === best ? '<' : '',
  ]);
  const most = Math.max(...measured.map(({ rowsPerSecond }) => rowsPerSecond.median));
  const sessions = best.sessionsPerDevice === 1 ? '' : ` with ${best.sessionsPerDevice} sessions per device`;
  return [
    formatTable([header, ...rows], [0, 1, 2, 3, 4, 5, 6]),
    `\nbatch ${best.rows}${sessions} on ${devices.join(', ')}: ${rateText(best)} images/s`,
    `, the smallest within 3 % of the most (${most.toFixed(1)})\n`,
    ...notes.map((note) => `note: ${note}\n`),
  ].join('');
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function rateText({ rowsPerSecond }: BatchMeasurement): string {
  return rowsPerSecond.median.toFixed(1);
}
