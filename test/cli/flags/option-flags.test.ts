/** Flags from fields: values under the names of options, checks that name the flag. */
import { Command } from 'commander';
import { expect, it } from 'vitest';
import {
  boolean,
  integer,
  oneOf,
  optional,
  positive,
  texts,
  type Fields,
} from '../../../src/base/options.js';
import { addFlags, readFieldText, readFlags } from '../../../src/cli/flags/option-flags.js';
import { SOURCE_FIELDS } from '../../../src/photos/feeds/items/source-options.js';

interface Named {
  readonly key: readonly string[];
  readonly top: number;
  readonly share: number | undefined;
  readonly kind: 'a' | 'b';
  readonly isMapped: boolean;
}

const FIELDS: Fields<Named> = {
  key: texts([], 'keys'),
  top: integer(1, 10, 5, 'the most'),
  share: optional(positive(0.5, 'a share', 1)),
  kind: oneOf(['a', 'b'], 'a', 'a kind'),
  isMapped: boolean(true, 'no map'),
};
const FLAGS = {
  key: '--output <key>',
  top: '--top <n>',
  share: '--share <x>',
  kind: '--kind <name>',
  isMapped: '--no-map',
} as const;

function read(...words: readonly string[]): object {
  const command = addFlags(new Command().exitOverride(), FIELDS, FLAGS, 'with --x: ').option('--json');
  command.configureOutput({ writeErr: () => undefined });
  return readFlags(FIELDS, command.parse(words, { from: 'user' }).opts());
}

it('have the defaults of the fields, and no value for a list or an option without one', () => {
  expect(read('--json')).toEqual({ top: 5, kind: 'a', isMapped: true });
});

it('have values under the names of the options', () => {
  const words = ['--output', 'a', '--output', 'b', '--top', '7', '--share', '1', '--kind', 'b', '--no-map'];
  expect(read(...words)).toEqual({ key: ['a', 'b'], top: 7, share: 1, kind: 'b', isMapped: false });
});

it.each([
  ['0.98', 0.98],
  ['.98', 0.98],
  ['1e-4', 1e-4],
  ['1.', 1],
])('read %s as people write numbers', (text, share) => {
  expect(read('--share', text)).toMatchObject({ share });
});

it.each([
  [['--top', '11'], 'option "--top" must be an integer from 1 to 10, got 11'],
  [['--share', '0'], 'option "--share" must be a number above 0, at most 1, got 0'],
  [['--share', '-1'], 'option "--share" must be a number above 0, at most 1, got -1'],
  [['--share', '1,5'], "option '--share <x>' argument '1,5' is invalid"],
  [['--share', '.'], "option '--share <x>' argument '.' is invalid"],
  [['--top', 'x'], "option '--top <n>' argument 'x' is invalid"],
  [['--kind', 'c'], 'Allowed choices are a, b'],
])('refuse %j by the name of the flag', (words, message) => {
  expect(() => read(...words)).toThrow(message);
});

it('have the help of the fields, with what stands before it', () => {
  const help = addFlags(new Command(), FIELDS, FLAGS, 'with --x: ').helpInformation();
  expect(help).toContain('with --x: the most (default: 5)');
});

it.each([
  ['column:id', { column: 'id' }],
  ['url', 'url'],
])('reads the names of photos as text: %s', (text, expected) => {
  expect(readFieldText('--set name', SOURCE_FIELDS.name, text)).toEqual(expected);
  expect(() => readFieldText('--set name', SOURCE_FIELDS.name, 'id')).toThrow('option "--set name" must be');
});
