/** Arrow streams in and out, and hostile ones. */
import * as arrow from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { openRecords } from '../../../../src/datasets/sources/records/open-records.js';
import { SOURCE_DEFAULTS } from '../../../../src/photos/feeds/items/source-options.js';
import { TapirError } from '../../../../src/base/errors.js';
import { arrowStream, inPieces, recordsOf, rowsOf } from '../../../support/arrow-streams.js';

const { vectorFromArray } = arrow;
const texts = vectorFromArray(['line\nbreak', '🐈', null, '', 'é'], new arrow.Utf8());
const item = (type: arrow.DataType): arrow.Field => new arrow.Field('item', type, true);
const paths = vectorFromArray(['\uFEFFa.jpg', 'b.jpg', 'c.jpg', null, 'e.jpg'], new arrow.Utf8());
const carried = {
  text: texts,
  int64: vectorFromArray([2n ** 63n - 1n, null, -(2n ** 63n), 0n, 1n], new arrow.Int64()),
  bool: vectorFromArray([true, null, false, true, true], new arrow.Bool()),
  double: vectorFromArray([0.1, null, -0, 1e300, Infinity], new arrow.Float64()),
  bytes: vectorFromArray(
    [new Uint8Array([0, 255]), null, new Uint8Array(0), new Uint8Array([1]), new Uint8Array([2])],
    new arrow.Binary(),
  ),
  list: vectorFromArray([[1, 2], null, [], [3], [4, null]], new arrow.List(item(new arrow.Int32()))),
  struct: vectorFromArray(
    [{ a: 1, b: 'x' }, null, { a: null, b: 'y' }, { a: 2, b: null }, { a: 3, b: 'z' }],
    new arrow.Struct([
      new arrow.Field('a', new arrow.Int8(), true),
      new arrow.Field('b', new arrow.Utf8(), true),
    ]),
  ),
};
const table = { path: paths, ...carried };
const stream = arrowStream(table, table);

const plain = (vector: arrow.Vector | null): unknown[] =>
  [...vector!].map((value: unknown) => (value instanceof Object ? JSON.stringify(value, deep) : value));
const deep = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? `${value}n` : value);

describe('Arrow in, Arrow out', () => {
  it.each([1, 3, 4, 5, 100])('carries all columns as they are, in batches of %s', async (batch) => {
    const result = arrow.tableFromIPC(await rowsOf(stream, { batch, piece: 7 }));
    const own = ['path', 'status', 'error_code', 'error_message', 'vector'];
    expect(result.schema.fields.map(({ name }) => name)).toEqual([...Object.keys(carried), ...own]);
    for (const [name, vector] of Object.entries(carried))
      expect(plain(result.getChild(name)), name).toEqual([...plain(vector), ...plain(vector)]);
    expect(plain(result.getChild('path'))).toEqual([...plain(paths), ...plain(paths)]);
    const failed = new Set([2, 3, 5, 8]);
    const codes = Array.from({ length: 10 }, (_, i) =>
      i === 3 || i === 8 ? 'IMAGE_EMPTY' : failed.has(i) ? 'IMAGE_UNREADABLE' : null,
    );
    expect(plain(result.getChild('error_code'))).toEqual(codes);
    expect(plain(result.getChild('status'))).toEqual(codes.map((code) => (code ? 'error' : 'ok')));
    const vectors = [...result.getChild('vector')!].map(
      (value: Iterable<number> | null) => value && Array.from(value),
    );
    expect(vectors).toEqual(codes.map((code, i) => (code === null ? [i, -i] : null)));
  });

  it('has a schema and no rows for a stream without rows', async () => {
    const empty = new arrow.Table(new arrow.Table(table).schema);
    const result = arrow.tableFromIPC(await rowsOf(arrow.tableToIPC(empty, 'stream')));
    expect(result.numRows).toBe(0);
    expect(result.schema.fields).toHaveLength(Object.keys(carried).length + 5);
  });

  it('ends with the stream where the end mark is left out', async () => {
    expect(await recordsOf(stream.subarray(0, -8))).toHaveLength(10);
  });

  it('becomes JSON lines, with all digits', async () => {
    const lines = Buffer.from(await rowsOf(stream, { output: 'jsonl' }))
      .toString()
      .trimEnd()
      .split('\n');
    expect(lines).toHaveLength(10);
    expect(lines[0]).toBe(
      '{"path":"\uFEFFa.jpg","status":"ok","vector":[0,-0.0],"text":"line\\nbreak","int64":9223372036854775807,"bool":true,"double":0.1,"bytes":"AP8=","list":[1,2],"struct":{"a":1,"b":"x"}}',
    );
    expect(lines[3]).toContain('"status":"error","error":{"code":"IMAGE_EMPTY"');
    expect(lines[4]).toContain('"double":null,"bytes":"Ag==","list":[4,null],"struct":{"a":3,"b":"z"}');
  });
});

describe('the column of images', () => {
  const bytes = vectorFromArray([new Uint8Array([1, 2]), null], new arrow.Binary());
  const names = vectorFromArray(['a', 'b'], new arrow.Utf8());
  const numbers = vectorFromArray([1, 2], new arrow.Int32());

  it('is path, else image; bytes may be named by path', async () => {
    const byPath = await recordsOf(arrowStream({ path: names, image: bytes }));
    expect(byPath.map(({ item: { path, image } }) => [path, image])).toEqual([
      ['a', 'a'],
      ['b', 'b'],
    ]);
    const byImage = await recordsOf(arrowStream({ image: bytes, id: numbers }));
    expect(byImage.map(({ item: { path, image, error } }) => [path, image, error?.code])).toEqual([
      [null, new Uint8Array([1, 2]), undefined],
      [null, '', 'IMAGE_EMPTY'],
    ]);
    const named = await recordsOf(arrowStream({ path: names, jpeg: bytes }), { options: { column: 'jpeg' } });
    expect(named.map(({ item: { path } }) => path)).toEqual(['a', 'b']);
    expect(named[0]!.extra).toMatchObject({ columns: [] });
  });

  it.each([
    ['is missing', { picture: bytes }, 'no column "path"; the columns are picture'],
    ['is of numbers', { path: numbers }, 'column "path" is of type Int32'],
    ['is dictionary-encoded', { path: vectorFromArray(['a', 'b']) }, 'dictionary-encoded'],
  ])('is refused where it %s', async (_what, columns, message) => {
    await expect(recordsOf(arrowStream(columns))).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    await expect(recordsOf(arrowStream(columns))).rejects.toThrow(message);
  });

  it.each([
    ['an output', { path: names, vector: numbers }, 'output "vector"'],
    [
      'a column of every row',
      { path: names, status: numbers },
      'column "status" has the name of a column that every row has',
    ],
    [
      'the path of other rows',
      { path: names, file: names },
      'column "path" has the name of a column that every row has',
      'file',
    ],
  ])(
    'may not stand beside a column that has the name of %s',
    async (_what, columns, message, column = 'path') => {
      const refused = rowsOf(arrowStream(columns), { options: { column } });
      await expect(refused).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
      await expect(refused).rejects.toThrow(message);
    },
  );

  it('has types beside it that JSON has nothing for', async () => {
    const when = arrow.makeVector(
      arrow.makeData({ type: new arrow.TimestampNanosecond(), data: BigInt64Array.of(1n, 2n) }),
    );
    const dated = arrowStream({ path: names, when });
    await expect(rowsOf(dated, { output: 'jsonl' })).rejects.toThrow('column "when" is of type Timestamp');
    const result = arrow.tableFromIPC(await rowsOf(dated));
    expect(result.getChild('when')!.data[0]!.values).toEqual(BigInt64Array.of(1n, 2n));
  });
});

describe('a hostile stream', () => {
  /** Whether it is read or refused; anything else is a defect. */
  const outcome = async (bytes: Uint8Array, output: 'arrow' | 'jsonl' = 'arrow'): Promise<string> => {
    try {
      await rowsOf(bytes, { input: 'arrow', output });
      return 'read';
    } catch (error) {
      if (error instanceof TapirError && error.code === 'SOURCE_INVALID') return 'refused';
      throw error;
    }
  };

  it('is refused wherever it is cut off, but between messages', async () => {
    const outcomes = new Map<string, number>();
    for (let length = 0; length < stream.length; length += length % 8 === 0 ? 1 : 7) {
      const what = await outcome(stream.subarray(0, length));
      outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
    }
    // Behind the schema, each of the batches; within the end mark it is cut off again.
    expect(outcomes.get('read')).toBe(3);
  });

  it.each(['arrow', 'jsonl'] as const)(
    'never hangs, whichever byte is another one; %s out',
    async (output) => {
      const short = arrowStream(table);
      const outcomes = new Set<string>();
      for (let at = 0; at < short.length; at++) {
        const damaged = Uint8Array.from(short);
        damaged[at]! ^= at % 2 === 0 ? 0xff : 1 << (at % 8);
        outcomes.add(await outcome(damaged, output));
      }
      expect([...outcomes].toSorted()).toEqual(['read', 'refused']);
    },
  );

  it('is refused for lengths that it only claims, before they are read', async () => {
    const metadata = Uint8Array.from(stream);
    new DataView(metadata.buffer).setInt32(4, 2 ** 30, true);
    await expect(recordsOf(metadata)).rejects.toThrow('its metadata has 1073741824 bytes');
    // An endless one.
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) yield new Uint8Array(65_536).fill(0xff);
    }
    await expect(openRecords(endless(), 'x', 'auto', SOURCE_DEFAULTS)).rejects.toThrow('its metadata has -1');
  });

  it('is refused for batches that are too large', async () => {
    const schema = stream.subarray(0, 8 + new DataView(stream.buffer, stream.byteOffset).getInt32(4, true));
    const batch = Uint8Array.from(stream.subarray(schema.length));
    const view = new DataView(batch.buffer);
    // The length of the body stands in the message as 64 bits: find it by its value.
    const rest = (stream.length - 8 - schema.length) / 2;
    const body = BigInt(rest - 8 - view.getInt32(4, true));
    let found = 0;
    for (let at = 8; at + 8 <= 8 + view.getInt32(4, true); at += 4) {
      if (view.getBigInt64(at, true) !== body) continue;
      found++;
      view.setBigInt64(at, 300n * 2n ** 20n, true);
    }
    expect(found).toBe(1);
    const whole = Buffer.concat([schema, batch]);
    await expect(recordsOf(whole)).rejects.toThrow('its body has 314572800 bytes; the limit is 268435456');
  });

  it('is refused as a file, as text, and as nothing', async () => {
    const file = arrow.tableToIPC(new arrow.Table(table), 'file');
    await expect(recordsOf(file, { input: 'arrow' })).rejects.toThrow('is it the file format?');
    await expect(recordsOf(Buffer.from('a.jpg\n'), { input: 'arrow' })).rejects.toThrow('it ends before');
    await expect(recordsOf(new Uint8Array(0), { input: 'arrow' })).rejects.toThrow('no schema');
  });

  it('is told from paths and JSON by its first bytes', async () => {
    const lines = (text: string): Promise<(string | null)[]> =>
      recordsOf(Buffer.from(text), { piece: 1 }).then((all) => all.map(({ item: { path } }) => path));
    expect(await lines('a.jpg\nb.jpg')).toEqual(['a.jpg', 'b.jpg']);
    expect(await lines('{"path":"a.jpg"}\n')).toEqual(['a.jpg']);
    expect(await lines('')).toEqual([]);
    expect((await recordsOf(stream, { piece: 1 })).length).toBe(10);
    for await (const piece of inPieces(stream, 5)) expect(piece.length).toBeLessThanOrEqual(5);
  });
});
