/** The help of a command: flags and, of many, those that most people need until `--help all`; and its settings. */
import { Help, Option, type Command } from 'commander';
import { counted } from '../../base/printable.js';
import { isRare } from './rare.js';
import { settingsOf } from './settings.js';

/** A command with more flags than this shows those that are not rare. */
const MOST_FLAGS = 14;

/** The help of a command: with all flags, or with those that most people need and how to see the others. */
export function formatHelp(command: Command, helper: Help, isWhole: boolean): string {
  const all = helper.visibleOptions(command);
  const shown = isWhole || all.length <= MOST_FLAGS ? all : all.filter((option) => !isRare(option));
  const shortened = Object.create(helper, { visibleOptions: { value: () => shown } }) as Help;
  const text = Help.prototype.formatHelp.call(helper, command, shortened);
  if (isWhole) return text + formatSettings(command, helper);
  const [left, settings] = [all.length - shown.length, settingsOf(command).size];
  const more = [
    ...(left === 0 ? [] : [counted(left, 'more flag')]),
    ...(settings === 0 ? [] : [counted(settings, 'setting')]),
  ];
  return more.length === 0 ? text : `${text}\n${more.join(', ')}: ${pathOf(command)} --help all\n`;
}

/** The words that call a command: `tapir bench embed`. */
function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}

/** The help of the settings: their names, what they are and their defaults; empty for a command without. */
function formatSettings(command: Command, helper: Help): string {
  const settings = [...settingsOf(command)];
  if (settings.length === 0) return '';
  const width = Math.max(...settings.map(([name]) => name.length));
  const lines = settings.map(([name, { about, fallback, reads }]) => {
    const option = new Option(`--${name} <value>`, about).default(fallback);
    if (Array.isArray(reads)) option.choices(reads);
    return helper.formatItem(name, width, helper.optionDescription(option), helper);
  });
  return `\nSettings (--set KEY=VALUE):\n${lines.join('\n')}\n`;
}
