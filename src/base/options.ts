/** Options as fields: one definition gives the default, the check, and the flag of a command with its help. */
import {
  checkBoolean,
  checkFunction,
  checkInteger,
  checkNumber,
  checkOneOf,
  checkSignal,
  checkText,
  checkTexts,
  invalidOption,
  withDefaults,
  type Options,
} from './checks.js';

/** Returns the value of an option, or throws `OPTION_INVALID`. */
export type Check<Value> = (option: string, value: unknown) => Value;

/** What an option is. */
export interface Field<Value> {
  /** The value of an option that is left out. */
  readonly fallback: Value;
  readonly check: Check<Value>;
  /** A line of help for the flag of a command; empty for an option that no command has. */
  readonly about: string;
  /** How a command reads the flag: a switch, a count, a number, a text, several, one of some words, or what a function makes of the text. */
  readonly reads:
    'switch' | 'count' | 'number' | 'text' | 'texts' | readonly string[] | ((text: string) => unknown);
}

/** A field for each of some options. */
export type Fields<Named> = { readonly [Name in keyof Named]-?: Field<Named[Name]> };

/** An integer in a range. */
export function integer(min: number, max: number, fallback: number, about = ''): Field<number> {
  return { fallback, about, reads: 'count', check: (option, value) => checkInteger(option, value, min, max) };
}

/** A finite number in a range, ends included. */
export function number(min: number, max: number, fallback: number, about = ''): Field<number> {
  return { fallback, about, reads: 'number', check: (option, value) => checkNumber(option, value, min, max) };
}

/** True or false. */
export function boolean(fallback: boolean, about = ''): Field<boolean> {
  return { fallback, about, reads: 'switch', check: checkBoolean };
}

/** One of some words. */
export function oneOf<Word extends string>(words: readonly Word[], fallback: Word, about = ''): Field<Word> {
  return { fallback, about, reads: words, check: (option, value) => checkOneOf(option, value, words) };
}

/** A text that is not empty. */
export function text(fallback: string, about = ''): Field<string> {
  return { fallback, about, reads: 'text', check: checkText };
}

/** Stops the work when it fires. */
export const signal: Field<AbortSignal | undefined> = {
  fallback: undefined,
  about: '',
  reads: 'text',
  check: (_option, value) => checkSignal(value),
};

/** A function that is called, or undefined. */
export function callback<Call extends (...args: never) => unknown>(): Field<Call | undefined> {
  return checkedBy((option, value) => checkFunction(option, value as Call | undefined), undefined);
}

/** A value that is checked where it is used, with what it must fit. */
export function unchecked<Value>(fallback: Value, about = ''): Field<Value> {
  return checkedBy((_option, value) => value as Value, fallback, about);
}

/** A value with a check of another kind. */
export function checkedBy<Value>(
  check: Check<Value>,
  fallback: Value,
  about = '',
  reads: Field<Value>['reads'] = 'text',
): Field<Value> {
  return { fallback, about, reads, check };
}

/** A list of texts. */
export function texts(fallback: readonly string[] = [], about = ''): Field<readonly string[]> {
  return checkedBy(checkTexts, fallback, about, 'texts');
}

/** A finite number above 0, and at most a limit. */
export function positive(fallback: number, about = '', most: number = Infinity): Field<number> {
  const expected = `a number above 0${most < Infinity ? `, at most ${most}` : ''}`;
  const check = (option: string, value: unknown): number => {
    if (typeof value === 'number' && value > 0 && value <= most && value < Infinity) return value;
    throw invalidOption(option, expected, value);
  };
  return checkedBy(check, fallback, about, 'number');
}

/** An option that may be left out, which then is undefined: a field, or the check of a given value. */
export function optional<Value>(field: Field<Value> | Check<Value>, about = ''): Field<Value | undefined> {
  const given = typeof field === 'function' ? checkedBy(field, undefined as Value, about) : field;
  const check = (option: string, value: unknown): Value | undefined =>
    value === undefined ? undefined : given.check(option, value);
  return { ...given, fallback: undefined, check };
}

/** The values of options that are left out. */
export function defaultsOf<Named extends object>(fields: Fields<Named>): Named {
  return mapFields(fields, ({ fallback }) => fallback);
}

/** Checks each option that has a field. `of` is what they belong to, for messages: `session.`. Throws `OPTION_INVALID`. */
export function checkFields<Named extends object>(fields: Fields<Named>, options: Named, of = ''): Named {
  return Object.freeze(mapFields(fields, ({ check }, name) => check(of + name, options[name])));
}

/** Lays the caller's options over the defaults, and checks each. Throws `OPTION_INVALID`, also for an unknown option. */
export function readOptions<Named extends object>(
  fields: Fields<Named>,
  given: Options<Named>,
  what: string,
  of = '',
): Named {
  return checkFields(fields, withDefaults(defaultsOf(fields), given, what), of);
}

/**
 * Refuses options that a variant does not use: one that is given and changes nothing is a mistake. Their defaults pass, as a command gives
 * all of its flags. Throws `OPTION_INVALID`.
 *
 * @param variant - For the message: `kind "knn"`.
 */
export function refuseUnused<Named extends object>(
  fields: Fields<Named>,
  options: Named,
  unused: readonly (keyof Named & string)[],
  variant: string,
): void {
  const name = unused.find((name) => options[name] !== fields[name].fallback);
  if (name !== undefined) throw invalidOption(name, `left out: ${variant} does not use it`, options[name]);
}

function mapFields<Named extends object>(
  fields: Fields<Named>,
  valueOf: (field: Field<Named[keyof Named]>, name: keyof Named & string) => Named[keyof Named],
): Named {
  const entries = Object.entries<Field<Named[keyof Named]>>(fields);
  return Object.fromEntries(
    entries.map(([name, field]) => [name, valueOf(field, name as keyof Named & string)]),
  ) as Named;
}
