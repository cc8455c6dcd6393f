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

/** The commands in the order of the help. Each loads when it is requested: to load all of them takes longer than most of them run. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  nodes: async () => (await import('./commands/nodes.js')).addNodesCommand,
  extract: async () => (await import('./commands/extract.js')).addExtractCommand,
  embed: async () => (await import('./commands/embed/embed.js')).addEmbedCommand,
  report: async () => (await import('./commands/dataset/report.js')).addReportCommand,
  search: async () => (await import('./commands/search.js')).addSearchCommand,
  dedupe: async () => (await import('./commands/dataset/dedupe.js')).addDedupeCommand,
  probe: async () => (await import('./commands/probe/probe.js')).addProbeCommand,
  classify: async () => (await import('./commands/probe/classify.js')).addClassifyCommand,
  serve: async () => (await import('./commands/serve.js')).addServeCommand,
  explore: async () => (await import('./commands/explore.js')).addExploreCommand,
  cam: async () => (await import('./commands/cam.js')).addCamCommand,
  compare: async () => (await import('./commands/compare.js')).addCompareCommand,
  quantize: async () => (await import('./commands/quantize.js')).addQuantizeCommand,
  merge: async () => (await import('./commands/merge.js')).addMergeCommand,
  models: async () => (await import('./commands/models.js')).addModelsCommand,
  create: async () => (await import('./commands/create.js')).addCreateCommand,
  params: async () => (await import('./commands/params.js')).addParamsCommand,
  load: async () => (await import('./commands/load.js')).addLoadCommand,
  train: async () => (await import('./commands/train.js')).addTrainCommand,
  bn: async () => (await import('./commands/bn.js')).addBnCommand,
  differentiate: async () => (await import('./commands/differentiate.js')).addDifferentiateCommand,
  split: async () => (await import('./commands/split.js')).addSplitCommand,
  engines: async () => (await import('./commands/engines.js')).addEnginesCommand,
  bench: async () => (await import('./commands/bench/bench.js')).addBenchCommand,
  doctor: async () => (await import('./commands/doctor.js')).addDoctorCommand,
};

/**
 * Builds the command line.
 *
 * @param asked - The requested command. Without one, or with an unknown one, all commands are loaded: the help, and the advice for a
 * misspelt command, name all of them.
 */
export async function createProgram(terminal: Terminal, asked: string | undefined): Promise<Command> {
  const program = new TapirCommand('tapir')
    .description('Tap the intermediate representation of any ONNX vision model.')
    .version(packageVersion())
    .configureOutput({ writeOut: (text) => terminal.out(text), writeErr: (text) => terminal.err(text) })
    .showHelpAfterError('(tapir --help shows the commands, tapir COMMAND --help the flags)')
    .exitOverride();

  const names = asked !== undefined && Object.hasOwn(COMMANDS, asked) ? [asked] : Object.keys(COMMANDS);
  const commands = await Promise.all(names.map((name) => COMMANDS[name]!()));
  for (const addCommand of commands) addCommand(program, terminal);
  return program;
}
