import { fileURLToPath } from 'node:url';
import { TapirError } from './errors.js';
import { nearestNames } from './nearest-names.js';
import { hideSecrets, hideSecretsOfJson } from './url-names.js';

/** The options that a caller may pass. Every field is optional; `undefined` counts as left out. */
export type Options<Fields> = { readonly [Key in keyof Fields]?: Fields[Key] | undefined };

/**
 * Formats a value for a message: 80 characters at most, text in quotes, URLs without credentials. Bytes and objects without fields to show,
 * such as a generator, are their class.
 */
export function show(value: unknown): string {
  if (typeof value === 'string') {
    const text = hideSecrets(value);
    return JSON.stringify(text.length > 80 ? `${text.slice(0, 77)}…` : text);
  }
  if (typeof value === 'function') return 'a function';
  if (ArrayBuffer.isView(value)) return value.constructor.name;
  if (value !== null && typeof value === 'object') {
    if (!Array.isArray(value) && !isPlainObject(value) && !('toJSON' in value)) return classOf(value);
    const json = toJson(value);
    const text = hideSecretsOfJson(json);
    return text.length > 80 ? `${text.slice(0, 77)}…` : text;
  }
  return String(value);
}

/** Formats an object as JSON. A stream or a socket refers to itself and has no JSON: its class is named instead. */
function toJson(value: object): string {
  // Buffers make lists of numbers of themselves before a replacer sees them; their holder still has them.
  function replace(this: Readonly<Record<string, unknown>>, key: string, inner: unknown): unknown {
    const held = this[key];
    if (ArrayBuffer.isView(held)) return held.constructor.name;
    return typeof inner === 'bigint' ? `${inner}n` : inner;
  }
  try {
    return String(JSON.stringify(value, replace));
  } catch {
    return classOf(value);
  }
}

/** `an object of class Extractor`; for what loops take, such as a generator, that is more than its class. */
function classOf(value: object): string {
  if (Symbol.asyncIterator in value || Symbol.iterator in value) return 'an iterable';
  return `an object of class ${value.constructor?.name ?? 'unknown'}`;
}

/**
 * Makes the error for a bad option, in one form: `option "batch" must be an integer from 1 to 1024, got -1`. Of an option that was left
 * out, it says only what it must be.
 */
export function invalidOption(
  option: string,
  expected: string,
  actual: unknown,
): TapirError<'OPTION_INVALID'> {
  const got = actual === undefined ? '' : `, got ${show(actual)}`;
  return new TapirError('OPTION_INVALID', `option "${option}" must be ${expected}${got}`, {
    details: { option, expected, actual: show(actual) },
  });
}

/** Returns an integer in a range, or throws `OPTION_INVALID`. */
export function checkInteger(option: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalidOption(option, `an integer from ${min} to ${max}`, value);
}

/** Returns a finite number in a range, ends included, or throws `OPTION_INVALID`. */
export function checkNumber(option: string, value: unknown, min: number, max: number = Infinity): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= min && value <= max) return value;
  if (max < Infinity) throw invalidOption(option, `a number from ${min} to ${max}`, value);
  throw invalidOption(option, min > -Infinity ? `a finite number from ${min}` : 'a finite number', value);
}

/** Returns one of the allowed words, or throws `OPTION_INVALID`. */
export function checkOneOf<Word extends string>(
  option: string,
  value: unknown,
  words: readonly Word[],
): Word {
  const found = words.find((word) => word === value);
  if (found !== undefined) return found;
  throw invalidOption(option, `one of ${words.map((word) => `"${word}"`).join(', ')}`, value);
}

/** Returns a boolean, or throws `OPTION_INVALID`. */
export function checkBoolean(option: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw invalidOption(option, 'true or false', value);
}

/** Returns a string that is not empty, or throws `OPTION_INVALID`. */
export function checkText(option: string, value: unknown): string {
  if (isText(value)) return value;
  throw invalidOption(option, 'a string that is not empty', value);
}

/** Returns the path that a path or a `file:` URL names, or throws `OPTION_INVALID`. */
export function checkPath(option: string, value: unknown): string {
  if (!(value instanceof URL)) return checkText(option, value);
  try {
    return fileURLToPath(value);
  } catch {
    // Another protocol, a host, or an escape that does not decode.
    throw invalidOption(option, 'a path or a file: URL of this machine', value.href);
  }
}

/** Returns the items of a list, or throws `OPTION_INVALID`. A hole counts as an item that is `undefined`. */
export function checkList<Item>(
  option: string,
  value: unknown,
  expected: string,
  isItem: (item: unknown) => item is Item,
): readonly Item[] {
  const items = Array.isArray(value) ? Array.from(value as readonly unknown[]) : [undefined];
  if (items.every(isItem)) return items;
  throw invalidOption(option, expected, value);
}

/** Returns a list of strings, or throws `OPTION_INVALID`. */
export function checkTexts(option: string, value: unknown): readonly string[] {
  const isString = (item: unknown): item is string => typeof item === 'string';
  return checkList(option, value, 'a list of strings', isString);
}

/** Returns an (async) iterable that is no text, or throws `OPTION_INVALID`. */
export function checkIterable<Items extends Iterable<unknown> | AsyncIterable<unknown>>(
  option: string,
  value: Items,
  expected: string,
): Items {
  const isIterable =
    typeof value === 'object' &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value);
  if (isIterable) return value;
  throw invalidOption(option, expected, value);
}

/** Whether a value is a text that is not empty. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Whether a value is an object without a class, as `{}` and JSON make it, of any realm. A Map, a Date or a URL is not. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (value === null || typeof value !== 'object') return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Returns a function or undefined, or throws `OPTION_INVALID`. */
export function checkFunction<Value>(option: string, value: Value): Value {
  if (value === undefined || typeof value === 'function') return value;
  throw invalidOption(option, 'a function', value);
}

/** Returns an `AbortSignal` or undefined, or throws `OPTION_INVALID`. */
export function checkSignal(value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  throw invalidOption('signal', 'an AbortSignal', value);
}

/**
 * Returns the options that a caller really gave: a frozen copy without the fields whose value is `undefined`, to lay over inherited
 * options. The spread of the caller's own object would let an `undefined` hide what is inherited. Throws `OPTION_INVALID` for anything but
 * an object of options.
 */
export function givenFields<Given extends object>(given: Given, what: string): Given {
  if (!isPlainObject(given)) {
    const [expected, actual] = ['an options object', show(given)];
    throw new TapirError('OPTION_INVALID', `${what} takes ${expected}, got ${actual}`, {
      details: { option: what, expected, actual },
    });
  }
  const fields = Object.entries(given).filter(([, value]) => value !== undefined);
  // A field that may be undefined is optional: the type holds without it.
  return Object.freeze(Object.fromEntries(fields)) as Given;
}

/** Those of some options that a part of the package takes: the ones that it has fields for. */
export function pickFields<Given extends object, Name extends keyof Given>(
  options: Given,
  fields: Readonly<Record<Name, unknown>>,
): Pick<Given, Name> {
  const names = Object.keys(fields) as Name[];
  return Object.fromEntries(names.map((name) => [name, options[name]])) as Pick<Given, Name>;
}

/**
 * Lays the caller's options over defaults or inherited options, in a frozen object with every field. Fields that are `undefined` count as
 * left out. Throws `OPTION_INVALID` for an unknown option, and for anything but an object of options.
 */
export function withDefaults<Fields extends object>(
  defaults: Fields,
  given: Options<Fields>,
  what: string,
): Fields {
  const fields = givenFields(given, what);
  const names = Object.keys(defaults);
  // An unknown option is refused even if it is undefined: it is a misspelling.
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(defaults, key));
  if (unknown !== undefined) {
    const list = names.join(', ');
    const meant = meantOption(unknown, names);
    const had = meant === undefined ? `it has ${list}` : `did you mean "${meant}"? It has ${list}`;
    throw new TapirError('OPTION_INVALID', `${what} has no option "${unknown}"; ${had}`, {
      details: { option: unknown, expected: `one of ${list}`, actual: unknown },
    });
  }
  return Object.freeze({ ...defaults, ...fields });
}

/** The option that a misspelt one means: one a few edits away, or one that it begins with or that begins with it. */
function meantOption(given: string, names: readonly string[]): string | undefined {
  // Any short name is a few edits away from another one.
  if (given.length < 3) return undefined;
  const lower = given.toLowerCase();
  const isPart = (name: string): boolean =>
    lower.startsWith(name.toLowerCase()) || name.toLowerCase().startsWith(lower);
  return nearestNames(given, names)[0] ?? names.find(isPart);
}
