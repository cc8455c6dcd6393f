/** The request of a user: a list of names, or names mapped to output keys. */
import { checkList, invalidOption, isText, show } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';

/**
 * The values to return: a list of names (each is its own key), or pairs *name → key* as a record, a Map, or an
 * array of `[name, key]`. Results come in the order of the request.
 */
export type ReturnNodes =
  | readonly string[]
  | Readonly<Record<string, string>>
  | ReadonlyMap<string, string>
  | readonly (readonly [name: string, key: string])[];

/** The output keys of a request, as a type: `{ layer4: 'features' }` → `'features'`. */
export type KeysOf<Nodes extends ReturnNodes> =
  Nodes extends ReadonlyMap<string, infer Key extends string>
    ? Key
    : Nodes extends readonly (infer Item)[]
      ? Item extends string
        ? Item
        : Item extends readonly [string, infer Key extends string]
          ? Key
          : never
      : Nodes[keyof Nodes] & string;

/** A checked request. */
export interface ReturnNode {
  readonly request: string;
  readonly key: string;
}

/** Reads a request into pairs, with whether it named keys. Throws `OPTION_INVALID`. */
export function readReturnNodes(nodes: ReturnNodes): {
  readonly pairs: readonly ReturnNode[];
  readonly keyed: boolean;
} {
  const expected = 'a list of names, a record or Map of name → key, or a list of [name, key]';
  if (nodes === null || typeof nodes !== 'object') throw invalidOption('returnNodes', expected, nodes);
  const isList = Array.isArray(nodes);
  // A hole in a list is an item too.
  const items: readonly unknown[] = isList
    ? Array.from(nodes as readonly unknown[])
    : nodes instanceof Map
      ? [...nodes]
      : Object.entries(nodes);
  const pairs = items.map((item): ReturnNode => {
    if (typeof item === 'string' && isList) return checkPair(item, item);
    if (!Array.isArray(item) || item.length !== 2) throw invalidOption('returnNodes', expected, item);
    const [request, key] = item as readonly unknown[];
    return checkPair(request, key);
  });
  if (pairs.length === 0) throw invalidOption('returnNodes', 'at least one name', nodes);
  checkDistinct(pairs);
  return { pairs, keyed: !(isList && items.every((item) => typeof item === 'string')) };
}

/** Reads a non-empty list of names. Throws `OPTION_INVALID`. */
export function checkNames(option: string, given: unknown): readonly string[] {
  const names = checkList(option, given, 'a list of names', isText);
  if (names.length === 0) throw invalidOption(option, 'a list of names', given);
  return names;
}

function checkPair(request: unknown, key: unknown): ReturnNode {
  if (typeof request !== 'string' || request === '')
    throw invalidOption('returnNodes', 'made of names that are not empty', request);
  if (typeof key !== 'string' || key === '')
    throw invalidOption('returnNodes', `a key that is not empty for ${show(request)}`, key);
  if (key === '__proto__')
    throw invalidOption('returnNodes', 'free of the key "__proto__", which no record can hold', key);
  return { request, key };
}

/** The same name twice is one output. Two names under one key are refused, because one of them would be lost. */
function checkDistinct(pairs: readonly ReturnNode[]): void {
  const requests = new Map<string, string>();
  for (const { request, key } of pairs) {
    const other = requests.get(key);
    if (other !== undefined && other !== request) {
      throw new TapirError(
        'OPTION_INVALID',
        `returnNodes gives the key ${show(key)} to both ${show(other)} and ${show(request)}; keys must differ (the name of the node comes first: { layer4: 'features' })`,
        { details: { option: 'returnNodes', expected: 'distinct keys', actual: key } },
      );
    }
    requests.set(key, request);
  }
}
