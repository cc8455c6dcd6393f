import { TapirError } from './errors.js';

/** What a caller passes: every field optional; `undefined` counts as left out. */
export type Options<Fields> = { readonly [Key in keyof Fields]?: Fields[Key] | undefined };

/** A value as it reads in a message: short, quoted if text. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}…` : value);
  if (typeof value === 'function') return 'a function';
  if (ArrayBuffer.isView(value)) return value.constructor.name;
  if (value !== null && typeof value === 'object') {
    const text = toJson(value, (_key, inner: unknown) =>
      typeof inner === 'bigint' ? `${inner}n` : ArrayBuffer.isView(inner) ? inner.constructor.name : inner,
    );
    return text.length > 80 ? `${text.slice(0, 77)}…` : text;
  }
  return String(value);
}

/** JSON, or the kind of an object that has none (a stream, a socket: they refer to themselves). */
function toJson(value: object, replace: (key: string, inner: unknown) => unknown): string {
  try {
    return JSON.stringify(value, replace);
  } catch {
    return `an object of class ${value.constructor?.name ?? 'unknown'}`;
  }
}

/** The one sentence form for every bad option: `option "batch" must be an integer from 1 to 1024, got -1`. */
export function invalidOption(
  option: string,
  expected: string,
  actual: unknown,
): TapirError<'OPTION_INVALID'> {
  return new TapirError('OPTION_INVALID', `option "${option}" must be ${expected}, got ${show(actual)}`, {
    details: { option, expected, actual: show(actual) },
  });
}

/** Returns an integer in a range, or throws `OPTION_INVALID`. */
export function checkInteger(option: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw invalidOption(option, `an integer from ${min} to ${max}`, value);
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
  if (typeof value === 'string' && value !== '') return value;
  throw invalidOption(option, 'a string that is not empty', value);
}

/** Returns an `AbortSignal` or undefined, or throws `OPTION_INVALID`. */
export function checkSignal(value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  throw invalidOption('signal', 'an AbortSignal', value);
}

/**
 * Lays what a caller gave over the defaults: unknown keys are refused, `undefined` counts as absent, the
 * caller's object is not written to.
 */
export function withDefaults<Fields extends object>(
  defaults: Fields,
  given: Options<Fields>,
  what: string,
): Fields {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) {
    throw invalidOption(what, 'an options object', given);
  }
  const result: Record<string, unknown> = Object.fromEntries(Object.entries(defaults));
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(defaults, key)) {
      throw new TapirError(
        'OPTION_INVALID',
        `${what} has no option "${key}"; it has ${Object.keys(defaults).join(', ')}`,
        {
          details: { option: key, expected: `one of ${Object.keys(defaults).join(', ')}`, actual: key },
        },
      );
    }
    if (value !== undefined) result[key] = value;
  }
  // Every key of Fields is there, from the defaults or with the caller's type.
  return Object.freeze(result) as Fields;
}
