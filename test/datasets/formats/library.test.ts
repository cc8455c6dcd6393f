/** Columns made from bytes, and the two encoders, read back by apache-arrow itself. */
import { tableFromIPC, type Vector } from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import {
  createFileEncoder,
  createStreamEncoder,
  featureData,
  featureField,
  loadArrow,
  nameOfType,
  textData,
} from '../../../src/datasets/formats/library.js';

const arrow = await loadArrow();
const column = { key: 'f', dtype: 'int16', dims: [2, 1], elements: 2 } as const;
const field = featureField(arrow, column, true);
const schema = new arrow.Schema([new arrow.Field('path', new arrow.Utf8(), true), field]);

/** Three rows; the second one has no features, and the last one no path. */
function batchOf(values: readonly number[]): InstanceType<typeof arrow.RecordBatch> {
  const bytes = new Uint8Array(Int16Array.from(values).buffer);
  const children = [
    textData(arrow, ['a', 'ä', null]),
    featureData(arrow, field.type, 'int16', 3, bytes, Uint8Array.of(1, 0, 1)),
  ];
  const type = new arrow.Struct(schema.fields);
  return new arrow.RecordBatch(schema, arrow.makeData({ type, length: 3, nullCount: 0, children }));
}

describe.each([
  ['file', createFileEncoder],
  ['stream', createStreamEncoder],
])('the %s encoder', (_format, create) => {
  it('gives all bytes of a batch at once, and what it gave can be read', () => {
    const pieces: Uint8Array[] = [];
    const encoder = create(arrow, schema, pieces);
    encoder.write(batchOf([1, 2, 0, 0, -3, 4]));
    const afterFirst = pieces.length;
    expect(afterFirst).toBeGreaterThan(0);
    encoder.write(batchOf([5, 6, 0, 0, 7, 8]));
    expect(pieces.length).toBeGreaterThan(afterFirst);
    encoder.finish();
    const table = tableFromIPC(Buffer.concat(pieces));
    const rows = Array.from(table.getChild('f')! as Iterable<Vector | null>, (row) => row && [...row]);
    expect(rows).toEqual([[1, 2], null, [-3, 4], [5, 6], null, [7, 8]]);
    expect([...table.getChild('path')!]).toEqual(['a', 'ä', null, 'a', 'ä', null]);
  });
});

describe('the field of a feature', () => {
  it('is a tensor only with more than one dim', () => {
    expect(field.metadata.get('ARROW:extension:metadata')).toBe('{"shape":[2,1]}');
    expect(nameOfType(field.type)).toBe('FixedSizeList[2]<Int16>');
    const vector = featureField(arrow, { ...column, dims: [2] }, false);
    expect([vector.metadata.size, vector.nullable]).toEqual([0, false]);
    const scalar = featureField(arrow, { ...column, dims: [], elements: 1 }, false);
    expect(nameOfType(scalar.type)).toBe('Int16');
  });
});
