/** The commands and their flags. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { packageVersion } from '../base/package.js';
import { EMBED_FOLDER_DEFAULTS } from '../embed/embed-folder-options.js';
import type { MaxFailures } from '../embed/failure-limit.js';
import { FEATURE_FORMATS } from '../dataset/formats/feature-files.js';
import { ROW_FORMATS } from '../embed/streams/row-output.js';
import { EMBED_ROWS_DEFAULTS } from '../embed/streams/embed-rows.js';
import { INPUT_FORMATS } from '../sources/records/source-record.js';
import { MEASURE_EMBEDDING_DEFAULTS } from '../embed/measure/measure-embedding.js';
import { MEASURE_MODEL_DEFAULTS } from '../extract/measure-model.js';
import { PROFILE_DEFAULTS } from '../model/oracle/profile-model.js';
import { ENGINES, LANE_DEFAULTS, PRECISIONS } from '../runtime/lane-options.js';
import { runDoctor, type DoctorFlags } from './commands/doctor.js';
import { runBenchEmbed, type BenchEmbedFlags } from './commands/bench-embed.js';
import { runBenchModel, type BenchModelFlags } from './commands/bench-model.js';
import { runEmbed } from './commands/embed.js';
import type { EmbedFlags } from './commands/embed-run.js';
import { collect, parseCount, parseNumber } from './flags/flag-values.js';
import { YES_FLAG, YES_HELP } from './flags/find-model.js';
import {
  addExtractorFlags,
  addPartFlags,
  CUDA_LIBS_HELP,
  ENGINE_HELP,
  MODEL_HELP,
  PRECISION_HELP,
  RETURN_HELP,
} from './flags/extractor-flags.js';
import { runNodeCosts, type CostFlags } from './commands/node-costs.js';
import { runNodes, type NodesFlags } from './commands/nodes.js';
import { parseShard } from './flags/shard-flag.js';
import type { Terminal } from './terminal/terminal.js';

function parseFailures(text: string): MaxFailures {
  if (/^\d+$/.test(text)) return Number(text);
  if (/^\d+(?:\.\d+)?%$/.test(text)) return text as MaxFailures;
  throw new InvalidArgumentError('It must be a whole number, or a share such as 1%.');
}

function parseCounts(text: string): number[] {
  return text.split(',').map(parseCount);
}

/** A flag of `nodes --cost`, which turns it on. */
function costOption(flags: string, description: string): Option {
  return new Option(flags, `costs: ${description}`).implies({ cost: true });
}

/** The methods of commander's class that its types leave out. */
interface CommandErrors {
  missingMandatoryOptionValue(option: Option): void;
  unknownOption(flag: string): void;
}
const errors = Command.prototype as unknown as CommandErrors;

/** A command that names a misspelt flag first: commander would say that the flag meant is missing. */
class TapirCommand extends Command {
  override createCommand(name?: string): Command {
    return new TapirCommand(name);
  }

  missingMandatoryOptionValue(option: Option): void {
    const misspelt = this.args.find((word) => /^-./.test(word));
    if (misspelt !== undefined) errors.unknownOption.call(this, misspelt);
    errors.missingMandatoryOptionValue.call(this, option);
  }
}

/** Commands that load on demand: their code takes as long to load as that of all others. */
const MORE_COMMANDS: Readonly<Record<string, (program: Command, terminal: Terminal) => Promise<void>>> = {
  extract: async (program, terminal) =>
    addPartFlags((await import('./commands/extract.js')).addExtractCommand(program, terminal)),
  serve: async (program, terminal) => {
    const command = (await import('./commands/serve.js')).addServeCommand(program, terminal);
    addExtractorFlags(command);
    addPartFlags(command);
  },
  report: async (program, terminal) =>
    (await import('./commands/dataset/report.js')).addReportCommand(program, terminal),
  search: async (program, terminal) =>
    (await import('./commands/search.js')).addSearchCommand(program, terminal),
  dedupe: async (program, terminal) =>
    (await import('./commands/dataset/dedupe.js')).addDedupeCommand(program, terminal),
  probe: async (program, terminal) =>
    (await import('./commands/probe/probe.js')).addProbeCommand(program, terminal),
  classify: async (program, terminal) =>
    (await import('./commands/probe/classify.js')).addClassifyCommand(program, terminal),
  compare: async (program, terminal) =>
    (await import('./commands/compare.js')).addCompareCommand(program, terminal),
  explore: async (program, terminal) =>
    (await import('./commands/explore.js')).addExploreCommand(program, terminal),
  merge: async (program, terminal) =>
    (await import('./commands/merge.js')).addMergeCommand(program, terminal),
  create: async (program, terminal) =>
    (await import('./commands/create.js')).addCreateCommand(program, terminal),
  params: async (program, terminal) =>
    (await import('./commands/params.js')).addParamsCommand(program, terminal),
  load: async (program, terminal) => (await import('./commands/load.js')).addLoadCommand(program, terminal),
  split: async (program, terminal) =>
    (await import('./commands/split.js')).addSplitCommand(program, terminal),
  differentiate: async (program, terminal) =>
    (await import('./commands/differentiate.js')).addDifferentiateCommand(program, terminal),
  cam: async (program, terminal) => (await import('./commands/cam.js')).addCamCommand(program, terminal),
  train: async (program, terminal) =>
    (await import('./commands/train.js')).addTrainCommand(program, terminal),
  bn: async (program, terminal) => (await import('./commands/bn.js')).addBnCommand(program, terminal),
  models: async (program, terminal) =>
    (await import('./commands/models.js')).addModelsCommand(program, terminal),
  engines: async (program, terminal) =>
    (await import('./commands/engines.js')).addEnginesCommand(program, terminal),
};

/**
 * Builds the command line.
 *
 * @param asked - The requested command, if any. Other commands that load on demand are left out.
 */
export async function createProgram(terminal: Terminal, asked: string | undefined): Promise<Command> {
  const program = new TapirCommand('tapir')
    .description('Tap the intermediate representation of any ONNX vision model.')
    .version(packageVersion())
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .showHelpAfterError('(tapir --help shows the commands, tapir COMMAND --help the flags)')
    .exitOverride();

  program
    .command('nodes')
    .description('list the names that you can request, in execution order')
    .argument('<model>', MODEL_HELP)
    .option(YES_FLAG, YES_HELP, false)
    .option('--depth <n>', 'show modules down to this depth', parseCount)
    .option('--all', 'also list constants and sizes', false)
    .option('--cost', 'what each module and node costs: multiply-accumulates, weights, activations', false)
    .addOption(costOption('--batch <n>', 'rows of the inputs').argParser(parseCount))
    .addOption(costOption('--time', 'also time each node on the CPU').default(false))
    .addOption(
      costOption('--threads <n>', 'threads of a node that is timed; 0 for all')
        .argParser(parseCount)
        .default(PROFILE_DEFAULTS.threads),
    )
    .addOption(
      costOption('--size <[axis=]n>', 'size of an open axis; N alone for height and width').argParser(
        collect,
      ),
    )
    .addOption(costOption('--input-shape <input=n,n,…>', 'shape of an input; repeatable').argParser(collect))
    .option('--json', 'print JSON', false)
    .action(async (model: string, { cost, ...flags }: NodesFlags & CostFlags & { cost: boolean }) =>
      cost ? runNodeCosts(terminal, model, flags) : runNodes(terminal, model, flags),
    );

  const embed = program
    .command('embed')
    .description('embed images into a dataset; run the same command again to resume, or to add new images')
    .argument(
      '<source>',
      'folder (searched recursively), pattern, list (.txt, .csv, .tsv, .jsonl, .parquet), archive (.tar, .tar.gz, .zip; several: "shard-{000..009}.tar"), or - for standard input',
    )
    .requiredOption(
      '--out <folder>',
      'dataset to write, or - for rows on standard output (docs/guides/pipes.md)',
    )
    .option('--column <name>', 'column or field of a list that holds the path', EMBED_FOLDER_DEFAULTS.column)
    .addOption(
      new Option(
        '--input-format <format>',
        'format of standard input: a path per line, a JSON object per line, an Arrow stream; auto checks the first bytes',
      )
        .choices(INPUT_FORMATS)
        .default(EMBED_ROWS_DEFAULTS.inputFormat),
    )
    .option(
      '--max-wait-ms <n>',
      'with --out -: run a partial batch when standard input pauses for this long',
      parseCount,
      EMBED_ROWS_DEFAULTS.maxWaitMs,
    )
    .option('--null', 'paths of a plain list end with NUL: find -print0', EMBED_FOLDER_DEFAULTS.nulSeparated)
    .option('--allow-http', 'fetch entries of a list that are URLs', EMBED_FOLDER_DEFAULTS.allowHttp)
    .option(
      '--batch <n>',
      'images per run; 0 for 8 on the CPU and 32 on a GPU',
      parseCount,
      EMBED_FOLDER_DEFAULTS.batch,
    )
    .addOption(
      new Option('--dtype <type>', 'element type of features on disk')
        .choices(['float32', 'float16'])
        .default(EMBED_FOLDER_DEFAULTS.dtype),
    )
    .addOption(
      new Option(
        '--format <format>',
        'of the feature files: npy, arrow or parquet; with --out -, of the rows: jsonl or arrow',
      )
        .choices([...new Set([...FEATURE_FORMATS, ...ROW_FORMATS])])
        .default(EMBED_FOLDER_DEFAULTS.format),
    )
    .addOption(
      new Option(
        '--shard <i/n>',
        'embed part i (from 0) of n into OUT/parts/i-of-n; auto: as torchrun, Slurm or Open MPI say; auto/n: also Kubernetes',
      ).argParser(parseShard),
    )
    .option('--shard-size <n>', 'inputs per file', parseCount, EMBED_FOLDER_DEFAULTS.shardSize)
    .option('--keep-dims', 'keep trailing 1×1 dims', EMBED_FOLDER_DEFAULTS.keepDims)
    .option('--checksum', 'hash each file, to find changes that keep size and time', false)
    .option(
      '--max-failures <n>',
      'stop when more inputs fail: a number, or a share such as 1%',
      parseFailures,
    )
    .option(
      '--min-cosine <x>',
      'with another precision than float32: stop if the cosine to float32 on the first 16 images is less, such as 0.998',
      parseNumber,
    )
    .option(
      '--overwrite',
      'replace a dataset that exists; only files of the dataset are removed',
      EMBED_FOLDER_DEFAULTS.overwrite,
    )
    .option(
      '--metrics-port <port>',
      'serve figures for Prometheus on this port, to this machine only',
      parseCount,
    )
    .option('--json', 'print progress and the manifest as lines of JSON', false)
    .action((source: string, flags: EmbedFlags) => runEmbed(terminal, source, flags));

  program
    .command('doctor')
    .description('try every device; say what runs here, what does not and why, and what to do')
    .option('--cuda-libs <folder>', CUDA_LIBS_HELP)
    .option('--timeout <seconds>', 'time limit for each device', parseCount, 60)
    .option('--json', 'print JSON', false)
    .action((flags: DoctorFlags) => runDoctor(terminal, flags));

  const bench = program.command('bench').description('measure speed on this machine');
  const benchModel = bench
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
      new Option('--engine <name>', `${ENGINE_HELP}; all compares them`)
        .choices([...ENGINES, 'all'])
        .default(LANE_DEFAULTS.engine),
    )
    .addOption(
      new Option('--precision <type>', `${PRECISION_HELP}; all compares them`)
        .choices([...PRECISIONS, 'all'])
        .default(LANE_DEFAULTS.precision),
    )
    .option('--photos <source>', 'with all: folder of photos on which the cosine to float32 is measured')
    .option('--transform <name>', 'with --photos: preprocessing; auto: the model’s own', 'auto')
    .option('--batches <list>', 'batch sizes: 1,8,32 (default: powers of two while speed grows)', parseCounts)
    .option(
      '--sessions <list>',
      'sessions per device to compare: 1,2',
      parseCounts,
      MEASURE_MODEL_DEFAULTS.sessions,
    )
    .option(
      '--seconds <n>',
      'seconds of timed runs per batch size',
      parseNumber,
      MEASURE_MODEL_DEFAULTS.seconds,
    )
    .option('--json', 'print JSON', false)
    .action((model: string, flags: BenchModelFlags) => runBenchModel(terminal, model, flags));

  const benchEmbed = bench
    .command('embed')
    .description('measure decoding, the model, and both together, and show where the time goes')
    .argument('<source>', 'folder of images, searched recursively; read repeatedly')
    .option('--batch <n>', 'images per run; 0 finds the fastest', parseCount, 0)
    .option('--seconds <n>', 'seconds per measurement', parseNumber, MEASURE_EMBEDDING_DEFAULTS.seconds)
    .option('--rounds <n>', 'rounds of measurements', parseCount, MEASURE_EMBEDDING_DEFAULTS.rounds)
    .option('--json', 'print JSON', false)
    .action((source: string, flags: BenchEmbedFlags) => runBenchEmbed(terminal, source, flags));

  for (const command of [embed, benchEmbed]) addExtractorFlags(command);
  for (const command of [embed, benchModel, benchEmbed]) addPartFlags(command);
  const isHere = program.commands.some((command) => command.name() === asked);
  for (const [name, add] of Object.entries(MORE_COMMANDS))
    // The help, and the advice for a misspelt command, name all of them.
    if (name === asked || !(isHere || Object.hasOwn(MORE_COMMANDS, asked ?? '')))
      await add(program, terminal);
  return program;
}
