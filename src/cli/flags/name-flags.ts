/** Messages of the library in the words of a command: flags, settings and arguments in place of options. */
import type { Command } from 'commander';
import { settingsOf } from './settings.js';

/** Flags whose values have other names than the options that they become. */
const FLAGS: Readonly<Record<string, string>> = {
  returnNodes: '--return',
  crops: '--transform',
  backend: '--transform',
  inputSizes: '--size',
};

/** Writes the flag, setting or argument of a command for each `option "name"` of a message. What the command lacks stays an option. */
export function nameFlags(message: string, command: Command | undefined): string {
  return message.replaceAll(/option "([^"]+)"/g, (text, name: string) => nameOf(name, command) ?? text);
}

function nameOf(name: string, command: Command | undefined): string | undefined {
  // Flags that were read here, and arguments in brackets.
  if (/^(?:--|\[)/.test(name)) return name;
  const flags = command?.options ?? [];
  const flag = flags.find((one) => one.attributeName() === name || one.long === FLAGS[name]);
  if (flag?.long) return flag.long;
  const setting = name === 'parallel.sessionsPerDevice' ? 'sessions' : name;
  if (command && settingsOf(command).has(setting)) return `--set ${setting}`;
  if (command?.registeredArguments.some((argument) => argument.name() === name)) return `<${name}>`;
  const [whole, ...fields] = name.split('.');
  const outer = fields.length > 0 && nameOf(whole!, command);
  return outer ? `"${fields.join('.')}" of ${outer}` : undefined;
}
