/** Arrow streams for tests, and rows read and written without threads. */
import * as arrow from 'apache-arrow';
import { ArrowRows } from '../../src/datasets/streams/arrow-rows.js';
import { openRecords } from '../../src/datasets/sources/records/open-records.js';
import {
  type Carried,
  type InputFormat,
  type SourceRecord,
} from '../../src/datasets/sources/records/source-record.js';
import { JsonlRows } from '../../src/datasets/streams/jsonl-rows.js';
import { rowShape, type RowFormat } from '../../src/datasets/streams/row-output.js';
import { SOURCE_DEFAULTS, type SourceOptions } from '../../src/photos/feeds/items/source-options.js';
import type { FeatureColumn } from '../../src/onnx/tensor/feature-column.js';
import { TapirError } from '../../src/base/errors.js';

/** A stream of one record batch per table. */
export function arrowStream(...batches: readonly Record<string, arrow.Vector>[]): Uint8Array {
  const tables = batches.map((columns) => new arrow.Table(columns));
  return arrow.RecordBatchStreamWriter.writeAll(tables.flatMap((table) => table.batches)).toUint8Array(true);
}

/** Bytes in pieces of a size. */
export async function* inPieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** What is tried with a stream. */
export interface RowsPlan {
  readonly input?: Exclude<InputFormat, 'tar'>;
  readonly output?: RowFormat;
  readonly options?: Partial<SourceOptions>;
  readonly piece?: number;
  readonly batch?: number;
}

/** The key and dims of the made-up output. */
export const COLUMN: FeatureColumn = { key: 'vector', dtype: 'float32', dims: [2], elements: 2 };

/** The records of a stream. */
export async function recordsOf(bytes: Uint8Array, plan: RowsPlan = {}): Promise<SourceRecord<Carried>[]> {
  const { input = 'auto', options = {}, piece = bytes.length || 1 } = plan;
  const source = { ...SOURCE_DEFAULTS, ...options };
  const opened = await openRecords(inPieces(bytes, piece), 'the test', input, source);
  const records = [];
  for await (const record of opened.records) records.push(record);
  return records;
}

/** Reads records and writes rows as if each image had the vector [row, -row]; every third one fails. */
export async function rowsOf(bytes: Uint8Array, plan: RowsPlan = {}): Promise<Uint8Array> {
  const { input = 'auto', output = 'arrow', options = {}, piece = bytes.length || 1, batch = 4 } = plan;
  const source = { ...SOURCE_DEFAULTS, ...options };
  const opened = await openRecords(inPieces(bytes, piece), 'the test', input, source);
  const shape = rowShape(output, undefined, [COLUMN]);
  const encoder =
    output === 'arrow' ? new ArrowRows(opened, shape, arrow) : new JsonlRows(opened, shape, arrow);
  const pieces = encoder.begin().map((part) => Buffer.from(part));
  let row = 0;
  let records: SourceRecord<Carried>[] = [];
  const write = (): void => {
    if (records.length === 0) return;
    let read = 0;
    const items = records.map(({ item }, i) => {
      const error = item.error ?? ((row + i) % 3 === 2 ? failure() : null);
      const rows: readonly [number, number] = error ? [read, 0] : [read++, 1];
      return { index: row + i, path: item.path, rows, width: 1, height: 1, reduction: 1, stamp: null, error };
    });
    const ok = items.filter(({ error }) => !error);
    const data = Float32Array.from(ok.flatMap(({ index }) => [index, -index]));
    const features: Record<string, { dtype: 'float32'; dims: number[]; data: Float32Array }> =
      ok.length > 0 ? { vector: { dtype: 'float32', dims: [ok.length, 2], data } } : {};
    const extras = records.map(({ extra }) => extra);
    for (const part of encoder.encode({ items, features, extras, release: () => undefined }))
      pieces.push(Buffer.from(part));
    row += records.length;
    records = [];
  };
  for await (const record of opened.records) {
    records.push(record);
    if (records.length === batch) write();
  }
  write();
  for (const part of encoder.finish()) pieces.push(Buffer.from(part));
  return Buffer.concat(pieces);
}

function failure(): TapirError<'IMAGE_UNREADABLE'> {
  return new TapirError('IMAGE_UNREADABLE', 'cannot', { details: { source: 'x', reason: 'cannot' } });
}
