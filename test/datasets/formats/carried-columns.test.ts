/** What lists say about their photos: values as texts of JSON, and the types of the columns that hold them. */
import { describe, expect, it } from 'vitest';
import {
  areSameKinds,
  joinKinds,
  toJson,
  valuesOf,
  widest,
  type ColumnKind,
} from '../../../src/datasets/formats/carried-columns.js';
import { nameColumns } from '../../../src/datasets/formats/metadata.js';

describe('the kind of a column', () => {
  it.each<[string[], ColumnKind | undefined]>([
    [['true', 'null', 'false'], 'bool'],
    [['1', '-9223372036854775808'], 'int64'],
    [['1', '2.5'], 'float64'],
    [['9223372036854775808'], 'float64'],
    [['"1"', '"a"'], 'text'],
    [['"1"', '1'], 'json'],
    [['{}', 'null'], 'json'],
    [['true', '1'], 'json'],
    [['null'], undefined],
    [[], undefined],
  ])('%s → %s', (texts, kind) => expect(widest(texts)).toBe(kind));

  it('is the narrowest that holds the values of all files, in the order in which columns are met', () => {
    const joined = joinKinds([
      new Map([['a', 'int64']]),
      new Map([
        ['b', undefined],
        ['a', 'float64'],
      ]),
      new Map([['b', 'text']]),
    ]);
    expect([...joined]).toEqual([
      ['a', 'float64'],
      ['b', 'text'],
    ]);
    expect(areSameKinds(joined, new Map([...joined].toReversed()))).toBe(false);
  });
});

describe('a value', () => {
  it.each([
    [3, 'float', '3.0'],
    [1e300, 'float', '1e+300'],
    [Number.NaN, 'float', 'null'],
    [3, 'integer', '3'],
    [2n ** 62n, 'integer', '4611686018427387904'],
    [new Date(0), 'time', '"1970-01-01T00:00:00.000Z"'],
    [new Date(Number.NaN), 'time', 'null'],
    [undefined, 'text', 'null'],
    ['a"', 'text', '"a\\""'],
    [{ a: [1n] }, 'json', '{"a":[1]}'],
  ] as const)('%s of type %s → %s', (value, type, text) => expect(toJson(value, type)).toBe(text));

  it('comes back as one of JavaScript, with all digits of an integer', () => {
    const columns = new Map([
      ['a', '4611686018427387904'],
      ['b', '3.0'],
      ['__proto__', '"x"'],
      ['d', 'null'],
    ]);
    expect(Object.entries(valuesOf(columns))).toEqual([
      ['a', 2n ** 62n],
      ['b', 3],
      ['__proto__', 'x'],
      ['d', null],
    ]);
  });
});

describe('a name', () => {
  const refuse = (reason: string): Error => new Error(reason);

  it('that a row has itself is prefixed, in the metadata and in JavaScript', () => {
    const given = ['label', 'status', 'vector', 'errorCode'].map((name) => [name, '1'] as const);
    expect([...nameColumns(given, refuse).keys()]).toEqual([
      'label',
      'source_status',
      'source_vector',
      'source_errorCode',
    ]);
  });

  it.each([[['a', 'a']], [['row', 'source_row']]])('%s cannot be told apart', (names) =>
    expect(() =>
      nameColumns(
        names.map((name) => [name, '1'] as const),
        refuse,
      ),
    ).toThrow(/two columns "(?:a|source_row)"; rename one/),
  );
});
