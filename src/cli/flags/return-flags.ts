/** `--return name` and `--return name=key`. */
import { invalidOption } from '../../base/checks.js';
import type { ReturnNodes } from '../../model/return-nodes.js';

/** Reads the flags. Names alone stay a list, so that the written file keeps tensor names. Throws `OPTION_INVALID`. */
export function readReturnFlags(flags: readonly string[]): ReturnNodes {
  const pairs = flags.map((flag): [string, string] => {
    const equals = flag.lastIndexOf('=');
    const [name, key] = equals < 0 ? [flag, flag] : [flag.slice(0, equals), flag.slice(equals + 1)];
    if (name === '' || key === '') throw invalidOption('--return', 'NAME or NAME=KEY', flag);
    return [name, key];
  });
  return flags.every((flag) => !flag.includes('=')) ? [...flags] : pairs;
}
