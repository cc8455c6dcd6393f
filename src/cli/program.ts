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

/**
 * A command in the list of all: half a line about it, under 60 characters, and its module, which is loaded when the command is
 * requested: to load all of them takes longer than most of them run.
 */
type Listed = readonly [
  summary: string,
  load: () => Promise<{ readonly addCommand: (program: Command, terminal: Terminal) => void }>,
];

/** The commands by what they are for, in the order of the help. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, Listed>>>> = {
  'Look at a model': {
    nodes: ['list the names that you can ask for', () => import('./commands/nodes.js')],
    explore: [
      'a page: modules, costs, what a cut keeps, what it sees',
      () => import('./commands/explore.js'),
    ],
    params: ['list the parameters under torch’s names', () => import('./commands/params.js')],
    compare: ['measure how far the vectors of two models agree', () => import('./commands/compare.js')],
    check: ['check names, pixels, cuts, engines and vectors here', () => import('./commands/check.js')],
    cam: ['draw where in a photo a score comes from', () => import('./commands/cam.js')],
  },
  'Cut and change a model': {
    extract: ['cut a model down to the values that you name', () => import('./commands/extract.js')],
    split: ['cut a model into stages, for several devices', () => import('./commands/split.js')],
    quantize: ['write a model in 8 bits, calibrated on photos', () => import('./commands/quantize.js')],
    load: ['load a state dict into a model', () => import('./commands/load.js')],
    train: ['fine-tune on a folder with a subfolder per class', () => import('./commands/train.js')],
    bn: ['re-estimate BatchNorm statistics from photos', () => import('./commands/bn.js')],
    differentiate: [
      'write the gradients of a model as an ONNX file',
      () => import('./commands/differentiate.js'),
    ],
  },
  'Embed photos': {
    embed: ['embed photos into a dataset; resumes', () => import('./commands/embed/embed.js')],
    merge: ['merge the parts of embed --shard', () => import('./commands/merge.js')],
    serve: ['serve features over HTTP, with OpenAI’s API', () => import('./commands/serve.js')],
  },
  'Use the vectors': {
    report: [
      'a page: a map, near-duplicates, statistics, failures',
      () => import('./commands/dataset/report.js'),
    ],
    search: ['find what is nearest to photos, texts or vectors', () => import('./commands/search.js')],
    dedupe: ['list near-duplicates and the best copy of each', () => import('./commands/dataset/dedupe.js')],
    probe: ['train a classifier on the vectors', () => import('./commands/probe/probe.js')],
    classify: ['name the classes of photos', () => import('./commands/probe/classify.js')],
  },
  'Get models, set up': {
    models: ['list and pull models with trained weights', () => import('./commands/models.js')],
    create: ['write one of torchvision’s networks as ONNX', () => import('./commands/create.js')],
    engines: ['install OpenVINO, or CUDA for ONNX Runtime', () => import('./commands/engines.js')],
    bench: ['measure speed on this machine', () => import('./commands/bench/bench.js')],
    doctor: ['say what runs here, and what to do about the rest', () => import('./commands/doctor.js')],
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
    for (const [name, [summary, load]] of Object.entries(commands)) {
      if (name === asked) (await load()).addCommand(program, terminal);
      else program.command(name);
      program.commands.at(-1)!.summary(summary).helpGroup(`${group}:`);
    }
  return program;
}
