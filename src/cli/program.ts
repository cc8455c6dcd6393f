/** The command line: its commands. */
import { Command, type Option } from 'commander';
import { packageVersion } from '../base/package.js';
import type { Terminal } from './terminal/terminal.js';

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

/** Adds a command to the program. */
type AddCommand = (program: Command, terminal: Terminal) => void;

/** A command in the list of all. */
interface Listed {
  /** Half a line, under 60 characters. */
  readonly summary: string;
  /** Loads it when it is requested: to load all of them takes longer than most of them run. */
  readonly load: () => Promise<AddCommand>;
}

/** The commands by what they are for, in the order of the help. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, Listed>>>> = {
  'Look at a model': {
    nodes: {
      summary: 'list the names that you can ask for',
      load: async () => (await import('./commands/nodes.js')).addNodesCommand,
    },
    explore: {
      summary: 'a page: modules, costs, what a cut keeps, what it sees',
      load: async () => (await import('./commands/explore.js')).addExploreCommand,
    },
    params: {
      summary: 'list the parameters under torch’s names',
      load: async () => (await import('./commands/params.js')).addParamsCommand,
    },
    compare: {
      summary: 'measure how far the vectors of two models agree',
      load: async () => (await import('./commands/compare.js')).addCompareCommand,
    },
    check: {
      summary: 'check names, pixels, cuts, engines and vectors here',
      load: async () => (await import('./commands/check.js')).addCheckCommand,
    },
    cam: {
      summary: 'draw where in a photo a score comes from',
      load: async () => (await import('./commands/cam.js')).addCamCommand,
    },
  },
  'Cut and change a model': {
    extract: {
      summary: 'cut a model down to the values that you name',
      load: async () => (await import('./commands/extract.js')).addExtractCommand,
    },
    split: {
      summary: 'cut a model into stages, for several devices',
      load: async () => (await import('./commands/split.js')).addSplitCommand,
    },
    quantize: {
      summary: 'write a model in 8 bits, calibrated on photos',
      load: async () => (await import('./commands/quantize.js')).addQuantizeCommand,
    },
    load: {
      summary: 'load a state dict into a model',
      load: async () => (await import('./commands/load.js')).addLoadCommand,
    },
    train: {
      summary: 'fine-tune on a folder with a subfolder per class',
      load: async () => (await import('./commands/train.js')).addTrainCommand,
    },
    bn: {
      summary: 're-estimate BatchNorm statistics from photos',
      load: async () => (await import('./commands/bn.js')).addBnCommand,
    },
    differentiate: {
      summary: 'write the gradients of a model as an ONNX file',
      load: async () => (await import('./commands/differentiate.js')).addDifferentiateCommand,
    },
  },
  'Embed photos': {
    embed: {
      summary: 'embed photos into a dataset; resumes',
      load: async () => (await import('./commands/embed/embed.js')).addEmbedCommand,
    },
    merge: {
      summary: 'merge the parts of embed --shard',
      load: async () => (await import('./commands/merge.js')).addMergeCommand,
    },
    serve: {
      summary: 'serve features over HTTP, with OpenAI’s API',
      load: async () => (await import('./commands/serve.js')).addServeCommand,
    },
  },
  'Use the vectors': {
    report: {
      summary: 'a page: a map, near-duplicates, statistics, failures',
      load: async () => (await import('./commands/dataset/report.js')).addReportCommand,
    },
    search: {
      summary: 'find what is nearest to photos, texts or vectors',
      load: async () => (await import('./commands/search.js')).addSearchCommand,
    },
    dedupe: {
      summary: 'list near-duplicates and the best copy of each',
      load: async () => (await import('./commands/dataset/dedupe.js')).addDedupeCommand,
    },
    probe: {
      summary: 'train a classifier on the vectors',
      load: async () => (await import('./commands/probe/probe.js')).addProbeCommand,
    },
    classify: {
      summary: 'name the classes of photos',
      load: async () => (await import('./commands/probe/classify.js')).addClassifyCommand,
    },
  },
  'Get models, set up': {
    models: {
      summary: 'list and pull models with trained weights',
      load: async () => (await import('./commands/models.js')).addModelsCommand,
    },
    create: {
      summary: 'write one of torchvision’s networks as ONNX',
      load: async () => (await import('./commands/create.js')).addCreateCommand,
    },
    engines: {
      summary: 'install OpenVINO, or CUDA for ONNX Runtime',
      load: async () => (await import('./commands/engines.js')).addEnginesCommand,
    },
    bench: {
      summary: 'measure speed on this machine',
      load: async () => (await import('./commands/bench/bench.js')).addBenchCommand,
    },
    doctor: {
      summary: 'say what runs here, and what to do about the rest',
      load: async () => (await import('./commands/doctor.js')).addDoctorCommand,
    },
  },
};

/**
 * Builds the command line.
 *
 * @param words - The words of the command line that are no flags. The first one names the command, which alone is loaded: of the others,
 * the help and the advice for a misspelt command need only the name and the summary.
 */
export async function createProgram(terminal: Terminal, words: readonly string[]): Promise<Command> {
  const program = new TapirCommand('tapir')
    .description('Tap the intermediate representation of any ONNX vision model.')
    .version(packageVersion())
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .commandsGroup('Get models, set up:')
    .helpCommand(true)
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .showHelpAfterError('(tapir --help shows the commands, tapir COMMAND --help the flags)')
    .exitOverride();

  const asked = words[0] === 'help' ? words[1] : words[0];
  for (const [group, commands] of Object.entries(COMMANDS))
    for (const [name, { summary, load }] of Object.entries(commands)) {
      if (name === asked) (await load())(program, terminal);
      else program.command(name);
      program.commands.at(-1)!.summary(summary).helpGroup(`${group}:`);
    }
  return program;
}
