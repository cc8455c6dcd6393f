/** `--return name` and `--return name=key`. */
import { invalidOption } from '../../base/checks.js';
import { isTapirError } from '../../base/errors.js';
import { openModel, type OnnxModel } from '../../run/model/open/open-model.js';
import type { ReturnNodes } from '../../run/model/open/return-nodes.js';

export const RETURN_HELP =
  'what to return: a name that "tapir nodes" lists (tensor, node or module path); add "=KEY" to name the output; repeatable';

/** `a=x,b=y` in one flag. */
const JOINED = /^[^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)+$/;

/** Reads the flags. Names alone stay a list, so that the written file keeps tensor names. Throws `OPTION_INVALID`. */
export function readReturnFlags(flags: readonly string[]): ReturnNodes {
  const pairs = flags.map((flag): [string, string] => {
    if (JOINED.test(flag)) {
      const apart = flag.split(',').map((one) => `--return ${one}`);
      throw invalidOption('--return', `given once for each output (${apart.join(' ')})`, flag);
    }
    const { name, key } = splitFlag(flag);
    if (name === '' || key === '') throw invalidOption('--return', 'NAME or NAME=KEY', flag);
    return [name, key];
  });
  return flags.every((flag) => !flag.includes('=')) ? [...flags] : pairs;
}

/** A flag as name and key. */
export function splitFlag(flag: string): { readonly name: string; readonly key: string } {
  const equals = flag.lastIndexOf('=');
  return equals < 0
    ? { name: flag, key: flag }
    : { name: flag.slice(0, equals), key: flag.slice(equals + 1) };
}

/** Calls a function with the nodes that the flags name. Throws `OPTION_INVALID` for flags in the wrong order, `KEY=NAME`. */
export async function withReturnNodes<Result>(
  flags: readonly string[],
  model: string | OnnxModel,
  act: (nodes: ReturnNodes) => Promise<Result>,
): Promise<Result> {
  const nodes = readReturnFlags(flags);
  try {
    return await act(nodes);
  } catch (error) {
    if (!isTapirError(error, 'NAME_NOT_FOUND')) throw error;
    const unknown = new Set(error.details.names.map(({ request }) => request));
    const { nodes: known } = typeof model === 'string' ? await openModel(model) : model;
    const requests = new Set(known.map(({ request }) => request));
    const reversed = flags.find((flag) => {
      const { name, key } = splitFlag(flag);
      return (
        unknown.has(name) && (requests.has(key) || known.some((node) => node.request?.startsWith(`${key}.`)))
      );
    });
    if (reversed === undefined) throw error;
    const { name, key } = splitFlag(reversed);
    throw invalidOption('--return', `NAME=KEY, the name in the model first (${key}=${name})`, reversed);
  }
}
