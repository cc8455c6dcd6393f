/** The mark of flags that few people need. The help of a command with many flags leaves them out until `--help all`. */
import { Help, type Command, type Option } from 'commander';
import { counted } from '../../base/printable.js';

const MARK = ' (rare)';
/** The marked flags. */
const RARE = new WeakSet<Option>();

/** A command with more flags than this shows those without the mark. */
const MOST_FLAGS = 14;

/** Marks a flag: `rare('--null')`, wherever a command declares it. */
export function rare(flag: string): string {
  return flag + MARK;
}

/** Takes the mark off the text of a flag, and remembers it. */
export function readMark(option: Option): Option {
  if (!option.flags.endsWith(MARK)) return option;
  option.flags = option.flags.slice(0, -MARK.length);
  RARE.add(option);
  return option;
}

/** The help of a command: with all flags, or with those that most people need and how to see the others. */
export function formatHelp(command: Command, helper: Help, isWhole: boolean): string {
  const all = helper.visibleOptions(command);
  const shown = isWhole || all.length <= MOST_FLAGS ? all : all.filter((option) => !RARE.has(option));
  const shortened = Object.create(helper, { visibleOptions: { value: () => shown } }) as Help;
  const text = Help.prototype.formatHelp.call(helper, command, shortened);
  const left = all.length - shown.length;
  return left === 0 ? text : `${text}\n${counted(left, 'more flag')}: ${pathOf(command)} --help all\n`;
}

/** The words that call a command: `tapir bench embed`. */
function pathOf(command: Command): string {
  return command.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();
}
