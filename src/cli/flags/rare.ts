/** The mark of flags that few people need. The help of a command with many flags leaves them out until `--help all`. */
import type { Option } from 'commander';

const MARK = ' (rare)';
/** The marked flags. */
const RARE = new WeakSet<Option>();

/** Marks a flag: `rare('--json')`, wherever a command declares it. */
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

export function isRare(option: Option): boolean {
  return RARE.has(option);
}
