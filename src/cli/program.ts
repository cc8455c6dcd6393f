/** The command line: its commands. */
import { Command, type Option } from 'commander';
import { packageVersion } from '../base/package.js';
import { formatHelp, readMark } from './flags/rare.js';
import type { Terminal } from './terminal/terminal.js';

/** The methods of commander's class that its types leave out. */
interface CommandErrors {
  missingMandatoryOptionValue(option: Option): void;
  unknownOption(flag: string): void;
}
const errors = Command.prototype as unknown as CommandErrors;

/** A command that knows which flags are rare, and names a misspelt flag first: commander would say that the flag meant is missing. */
class TapirCommand extends Command {
  override createCommand(name?: string): Command {
    return new TapirCommand(name);
  }

  override addOption(option: Option): this {
    return super.addOption(readMark(option));
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
    compare: ['measure how far the vectors of two models agree', () => import('./commands/compare.js')],
    check: ['check names, pixels, cuts, engines and vectors here', () => import('./commands/check.js')],
    cam: ['draw where in a photo a score comes from', () => import('./commands/cam.js')],
    'features-map': ['draw what a layer sees in photos', () => import('./commands/features-map.js')],
    segment: ['write the class of every pixel of photos', () => import('./commands/segment.js')],
  },
  'Cut, quantise, train': {
    extract: ['cut a model down to the values that you name', () => import('./commands/extract.js')],
    quantize: ['write a model in 8 bits, calibrated on photos', () => import('./commands/quantize.js')],
    train: ['fine-tune on a folder with a subfolder per class', () => import('./commands/train.js')],
  },
  'Embed photos': {
    embed: ['embed photos into a dataset; resumes', () => import('./commands/embed/embed.js')],
    import: ['make a dataset of vectors in a Parquet table', () => import('./commands/import.js')],
    merge: ['merge the parts of embed --shard', () => import('./commands/merge.js')],
    serve: ['serve features over HTTP, with OpenAI’s API', () => import('./commands/serve.js')],
  },
  'Use the vectors': {
    report: [
      'a page: a map, near-duplicates, statistics, failures',
      () => import('./commands/dataset/report.js'),
    ],
    search: ['find the photos nearest to photos, words or vectors', () => import('./commands/search.js')],
    dedupe: ['list near-duplicates and the best copy of each', () => import('./commands/dataset/dedupe.js')],
    probe: [
      'train a classifier on the vectors, or label by words',
      () => import('./commands/probe/probe.js'),
    ],
    classify: ['name the classes of photos, with a classifier', () => import('./commands/probe/classify.js')],
  },
  'Get models, set up': {
    demo: ['embed example photos, or yours, and open a page', () => import('./commands/demo.js')],
    models: ['list and pull models with trained weights', () => import('./commands/models.js')],
    engines: ['install OpenVINO, CUDA, or plugins of ONNX Runtime', () => import('./commands/engines.js')],
    bench: ['measure speed on this machine', () => import('./commands/bench/bench.js')],
    doctor: ['say what runs here, and what to do about the rest', () => import('./commands/doctor.js')],
  },
  'Change a model': {
    params: ['list the parameters under torch’s names', () => import('./commands/params.js')],
    load: ['load a state dict into a model', () => import('./commands/load.js')],
    bn: ['re-estimate BatchNorm statistics from photos', () => import('./commands/bn.js')],
    split: ['cut a model into stages, for several devices', () => import('./commands/split.js')],
    differentiate: [
      'write the gradients of a model as an ONNX file',
      () => import('./commands/differentiate.js'),
    ],
    create: ['write one of torchvision’s networks as ONNX', () => import('./commands/create.js')],
  },
};

/** Puts the GPUs that `--devices all` means in its place. */
async function nameDevices(command: Command): Promise<void> {
  const { devices } = command.opts<{ readonly devices?: string }>();
  if (devices !== 'all') return;
  const { namedDevices } = await import('../runtime/devices/device-list.js');
  const { deviceName, readDevices } = await import('../runtime/lanes/device.js');
  const named = readDevices('--devices', await namedDevices(devices));
  command.setOptionValue('devices', named.map(deviceName).join(','));
}

/**
 * Builds the command line.
 *
 * @param words - The words of the command line that are no flags. The first one names the command, which alone is loaded: of the others,
 * the help and the advice for a misspelt command need only the name and the summary.
 * @param isWhole - Whether help shows all flags.
 */
export async function createProgram(
  terminal: Terminal,
  words: readonly string[],
  isWhole = false,
): Promise<Command> {
  const program = new TapirCommand('tapir')
    .description('Get the output of any layer of any ONNX vision model.')
    .version(packageVersion())
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      formatHelp: (command, helper) => formatHelp(command, helper, isWhole),
    })
    .showHelpAfterError(
      '(tapir --help shows the commands, tapir COMMAND --help the flags, --help all all of them)',
    )
    .exitOverride()
    .hook('preAction', (_, command) => nameDevices(command));

  const asked = words[0] === 'help' ? words[1] : words[0];
  for (const [group, commands] of Object.entries(COMMANDS))
    for (const [name, [summary, load]] of Object.entries(commands)) {
      if (name === asked) (await load()).addCommand(program, terminal);
      else program.command(name);
      program.commands.at(-1)!.summary(summary).helpGroup(`${group}:`);
    }
  // Last: commands would inherit the group for their own commands.
  return program.commandsGroup('Get models, set up:').helpCommand(true);
}
