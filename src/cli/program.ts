/** The command line: its commands. */
import { Command, type Option, type ParseOptionsResult } from 'commander';
import { invalidOption } from '../base/checks.js';
import { packageVersion } from '../base/package.js';
import { COMMANDS, type Listed } from './command-list.js';
import { formatHelp } from './flags/command-help.js';
import { readMark } from './flags/rare.js';
import { asSetting, wordSources } from './flags/settings.js';
import type { Terminal } from './terminal/terminal.js';

/** The methods of commander's class that its types leave out. */
interface CommandErrors {
  _excessArguments(given: readonly string[]): void;
  missingMandatoryOptionValue(option: Option): void;
  unknownOption(flag: string): void;
}
const errors = Command.prototype as unknown as CommandErrors;

/** What to give in place of several paths, by the last argument of a command. */
const INSTEAD: Readonly<Record<string, string>> = {
  source: 'give a folder, a list of paths, or a pattern in quotes: "photos/*.jpg"',
  photos: 'give a folder, a list of paths, or a pattern in quotes: "photos/*.jpg"',
  photo: 'run it once for each photo',
};

/** `--return` is missing, of which more can be said once the model is open. */
class ReturnMissing extends Error {
  readonly model: string | undefined;

  constructor(model: string | undefined) {
    super('--return is missing');
    this.model = model;
  }

  /** The error for the user, which names the outputs of the model. */
  async explain(): Promise<Error> {
    const { openModel } = await import('../run/model/open/open-model.js');
    const { outputs = [] } =
      this.model === undefined ? {} : await openModel(this.model).catch(() => ({ outputs: [] }));
    const named = outputs.map(({ name, dims }) => `"${name}" [${dims?.join(', ') ?? '?'}]`).join(', ');
    const file = named === '' ? '' : `; those of the file itself are ${named}`;
    return invalidOption(
      '--return',
      `given: the outputs, by names that "tapir nodes" lists${file}`,
      undefined,
    );
  }
}

/**
 * A command that knows which flags are rare and which options are settings, and names a misspelt flag first: commander would say that the flag meant is missing. Of several
 * paths where it takes one, it says what to give.
 */
export class TapirCommand extends Command {
  override createCommand(name?: string): Command {
    return new TapirCommand(name);
  }

  override addOption(option: Option): this {
    return super.addOption(readMark(option));
  }

  override parseOptions(words: string[]): ParseOptionsResult {
    const parsed = super.parseOptions(words);
    for (const wordsOf of wordSources(this)) super.parseOptions(wordsOf(this));
    return parsed;
  }

  unknownOption(flag: string): void {
    const setting = asSetting(this, flag);
    if (setting === undefined) return errors.unknownOption.call(this, flag);
    this.error(`error: unknown option '${flag}': write ${setting}`, { code: 'commander.unknownOption' });
  }

  missingMandatoryOptionValue(option: Option): void {
    const misspelt = this.args.find((word) => /^-./.test(word));
    if (misspelt !== undefined) this.unknownOption(misspelt);
    if (option.long === '--return')
      throw new ReturnMissing(this.opts<{ model?: string }>().model ?? this.args[0]);
    errors.missingMandatoryOptionValue.call(this, option);
  }

  override parseAsync(...given: Parameters<Command['parseAsync']>): Promise<this> {
    return super.parseAsync(...given).catch(async (error: unknown) => {
      throw error instanceof ReturnMissing ? await error.explain() : error;
    });
  }

  _excessArguments(given: readonly string[]): void {
    const instead = INSTEAD[this.registeredArguments.at(-1)?.name() ?? ''];
    if (instead === undefined) return errors._excessArguments.call(this, given);
    const count = given.length - this.registeredArguments.length + 1;
    this.error(`error: ${this.name()} takes one path here, got ${count}: ${instead}`, {
      code: 'commander.excessArguments',
    });
  }
}

/** Puts the GPUs that `--devices all` means in its place. */
async function nameDevices(command: Command): Promise<void> {
  const { devices } = command.opts<{ readonly devices?: string }>();
  if (devices !== 'all') return;
  const { namedDevices } = await import('../run/runtime/devices/device-list.js');
  const { deviceName, readDevices } = await import('../run/runtime/lanes/device.js');
  const named = readDevices('--devices', await namedDevices(devices));
  command.setOptionValue('devices', named.map(deviceName).join(','));
}

/** Adds a command, or a group with its commands. Only the one that the path names is loaded. */
async function addListed(
  parent: Command,
  name: string,
  [summary, content]: Listed,
  [asked, ...rest]: readonly string[],
  terminal: Terminal,
): Promise<void> {
  if (typeof content !== 'function') {
    const group = parent.command(name).description(summary);
    for (const [inner, listed] of Object.entries(content))
      await addListed(group, inner, listed, name === asked ? rest : [], terminal);
  } else if (name === asked) (await content()).addCommand(parent, terminal);
  else parent.command(name);
  parent.commands.at(-1)!.summary(summary);
}

/**
 * Builds the command line.
 *
 * @param words - The words of the command line that are no flags. The first ones name the command, which alone is loaded: of the others,
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

  const path = words[0] === 'help' ? words.slice(1) : words;
  for (const [heading, commands] of Object.entries(COMMANDS))
    for (const [name, listed] of Object.entries(commands)) {
      await addListed(program, name, listed, path, terminal);
      program.commands.at(-1)!.helpGroup(`${heading}:`);
    }
  // Last: commands would inherit the group for their own commands.
  return program.commandsGroup('Get models, set up:').helpCommand(true);
}
