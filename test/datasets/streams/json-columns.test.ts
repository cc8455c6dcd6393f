import * as arrow from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { JsonColumns } from '../../../src/datasets/streams/json-columns.js';
import type { Carried } from '../../../src/datasets/sources/records/source-record.js';

const row = (fields: Record<string, string>, line = 1): Carried => ({
  kind: 'json',
  line,
  fields: new Map(Object.entries(fields)),
});

/** The type of a field whose first rows have these texts. */
function typeOf(...texts: string[]): string {
  const columns = new JsonColumns(
    arrow,
    texts.map((text) => row({ a: text })),
    'the test',
  );
  const [field] = columns.fields;
  return `${String(field!.type)}${field!.metadata.get('ARROW:extension:name') ?? ''}`;
}

describe('JsonColumns', () => {
  it.each([
    [['true', 'false', 'null'], 'Bool'],
    [['1', '-9223372036854775808'], 'Int64'],
    [['9223372036854775808'], 'Float64'],
    [['1', '1.5', '1e3'], 'Float64'],
    [['"a"', '""'], 'Utf8'],
    [['"a"', '1'], 'Utf8arrow.json'],
    [['[1]', '{}'], 'Utf8arrow.json'],
    [['null'], 'Utf8arrow.json'],
  ])('types %j as %s', (texts, expected) => expect(typeOf(...texts)).toBe(expected));

  it('builds columns with all digits, nulls where a row lacks the field', () => {
    const first = [row({ id: '9007199254740993', ok: 'true', name: '"é"', more: '[1.0]' })];
    const columns = new JsonColumns(arrow, first, 'the test');
    const values = columns
      .data([...first, row({ name: 'null' })])
      .map((data) => [...new arrow.Vector([data])].map(String));
    expect(values).toEqual([
      ['9007199254740993', 'null'],
      ['true', 'null'],
      ['é', 'null'],
      ['[1.0]', 'null'],
    ]);
  });

  it('refuses later rows of another type or with another field, naming the line', () => {
    const columns = new JsonColumns(arrow, [row({ id: '1' })], 'the test');
    const error = (fields: Record<string, string>) => () => columns.data([row(fields, 9)]);
    expect(error({ id: '1.5' })).toThrow('line 9: its field "id" has a value that is not int64');
    expect(error({ id: '2', z: '1' })).toThrow('line 9: its field "z" is missing in the first batch');
  });
});
