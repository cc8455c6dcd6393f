/** Arrow's schema message, read field by field, and damaged in every byte. */
import { describe, expect, it } from 'vitest';
import { FlatTable } from '../../../src/tensor/arrow/flatbuffers.js';
import { createStreamEncoder, loadArrow } from '../../../src/tensor/arrow/library.js';

/** Ids of Message.fbs and Schema.fbs. */
const MESSAGE = { version: 0, headerType: 1, header: 2, bodyLength: 3 };
const SCHEMA = { endianness: 0, fields: 1, metadata: 2 };
const FIELD_NAME = 0;

const arrow = await loadArrow();

function schemaMessage(): Uint8Array {
  const names = ['a', 'größe'].map((name) => new arrow.Field(name, new arrow.Int8(), false));
  const pieces: Uint8Array[] = [];
  createStreamEncoder(arrow, new arrow.Schema(names, new Map([['key', 'value']])), pieces).finish();
  const bytes = Buffer.concat(pieces);
  // A marker, then the size of the message.
  return bytes.subarray(8, 8 + bytes.readInt32LE(4));
}

describe('FlatTable', () => {
  it('reads numbers, texts and tables by field id', () => {
    const message = FlatTable.root(schemaMessage());
    expect(message.uint8(MESSAGE.headerType)).toBe(1);
    expect(message.int64(MESSAGE.bodyLength)).toBe(0);
    expect(message.int16(MESSAGE.version)).toBe(4);
    const schema = message.table(MESSAGE.header)!;
    expect(schema.tables(SCHEMA.fields).map((field) => field.text(FIELD_NAME))).toEqual(['a', 'größe']);
    expect(schema.tables(SCHEMA.metadata).map((pair) => [pair.text(0), pair.text(1)])).toEqual([
      ['key', 'value'],
    ]);
  });

  it('gives the default of a field that the table does not have', () => {
    const message = FlatTable.root(schemaMessage());
    expect([message.has(99), message.uint8(99, 7), message.int32(99, -1), message.int64(99)]).toEqual([
      false,
      7,
      -1,
      0,
    ]);
    expect([message.table(99), message.tables(99), message.text(99)]).toEqual([undefined, [], '']);
  });

  it('throws a RangeError, and nothing else, whichever byte is damaged', () => {
    const whole = schemaMessage();
    const outcomes = new Set<string>();
    for (let at = 0; at < whole.length; at++) {
      for (const flip of [0x01, 0x80, 0xff]) {
        const damaged = Uint8Array.from(whole);
        damaged[at]! ^= flip;
        try {
          const schema = FlatTable.root(damaged).table(MESSAGE.header);
          for (const field of schema?.tables(SCHEMA.fields) ?? []) field.text(FIELD_NAME);
          outcomes.add('read');
        } catch (error) {
          outcomes.add((error as Error).name);
        }
      }
    }
    expect([...outcomes].toSorted()).toEqual(['RangeError', 'read']);
  });
});
