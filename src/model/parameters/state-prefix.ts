/** What the keys of a state dict begin with, because the model was part of another one. */

/** What DataParallel puts in front of all keys. */
const WRAPPER = 'module.';

/** `module.` if all keys begin with it, otherwise "". */
export function wrapperPrefix(given: Iterable<string>): string {
  const keys = [...given];
  return keys.length > 0 && keys.every((key) => key.startsWith(WRAPPER)) ? WRAPPER : '';
}

/** The entries whose keys begin with a prefix, without it. */
export function dropPrefix<Item>(state: ReadonlyMap<string, Item>, prefix: string): Map<string, Item> {
  return new Map(
    [...state].flatMap(([key, item]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), item]] : [])),
  );
}
