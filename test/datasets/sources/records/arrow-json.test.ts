import * as arrow from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { arrowToJson } from '../../../../src/datasets/sources/records/arrow-json.js';

const item = (type: arrow.DataType): arrow.Field => new arrow.Field('item', type, true);

function json(values: readonly unknown[], type: arrow.DataType): string[] {
  const vector = arrow.vectorFromArray(values as never, type);
  const write = arrowToJson(arrow, new arrow.Field('a', type, true), 'the test');
  return values.map((_, row) => write(vector.data[0]!, row));
}

describe('arrowToJson', () => {
  it.each([
    [[true, null], new arrow.Bool(), ['true', 'null']],
    [[2n ** 63n - 1n, null], new arrow.Int64(), ['9223372036854775807', 'null']],
    [[0.1, -0, Number.NaN], new arrow.Float64(), ['0.1', '-0.0', 'null']],
    [[0.1], new arrow.Float32(), ['0.1']],
    [['é"\n', null], new arrow.Utf8(), ['"é\\"\\n"', 'null']],
    [[new Uint8Array([0, 255])], new arrow.Binary(), ['"AP8="']],
    [[[1, null], null, []], new arrow.List(item(new arrow.Int32())), ['[1,null]', 'null', '[]']],
    [[[[1]], [[]]], new arrow.List(item(new arrow.List(item(new arrow.Int8())))), ['[[1]]', '[[]]']],
    [
      [{ x: 1, 'y"': null }],
      new arrow.Struct([
        new arrow.Field('x', new arrow.Int8(), true),
        new arrow.Field('y"', new arrow.Utf8(), true),
      ]),
      ['{"x":1,"y\\"":null}'],
    ],
    [[null], new arrow.Null(), ['null']],
  ] as [unknown[], arrow.DataType, string[]][])('%#', (values, type, expected) => {
    expect(json(values, type)).toEqual(expected);
    for (const text of expected) JSON.parse(text);
  });

  it('refuses types without a form in JSON, also inside of others', () => {
    for (const type of [new arrow.TimestampSecond(), new arrow.List(item(new arrow.DateDay()))])
      expect(() => arrowToJson(arrow, new arrow.Field('when', type, true), 'the test')).toThrow(
        /column "when" is of type .*no form in JSON; cast or drop it/,
      );
  });
});
