/**
 * Reads the Arrow files that arrow-writer.ts writes, one record batch at a time. It does not use apache-arrow, which trusts the
 * counts in a file: a damaged file keeps it busy for ever.
 */
import type { FileHandle } from 'node:fs/promises';
import { FlatTable } from './flatbuffers.js';
import { unpackBits } from '../../onnx/tensor/bits.js';
import { createData, elementBytes } from '../../onnx/tensor/tensor.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import { checkFacts, readExactly, type FeatureFile, type StoredRows } from './feature-format.js';
import type { Elements } from '../../onnx/tensor/widen.js';

/** The ids of the fields that are read, from Arrow's File.fbs, Schema.fbs and Message.fbs. */
const FOOTER = { schema: 1, recordBatches: 3 } as const;
const SCHEMA = { metadata: 2 } as const;
const PAIR = { key: 0, value: 1 } as const;
const MESSAGE = { headerType: 1, header: 2 } as const;
const BATCH = { length: 0, buffers: 2, compression: 3 } as const;
const RECORD_BATCH = 3;

const MAGIC = 'ARROW1';
const BLOCK_BYTES = 24;
const BUFFER_BYTES = 16;
/** The mark between the last batch and the footer. */
const END_OF_STREAM_BYTES = 8;
/** The largest footer (about ten million batches), and the largest metadata of a batch (ours have a few hundred bytes). */
const MAX_FOOTER_BYTES = 256 * 2 ** 20;
const MAX_MESSAGE_BYTES = 65_536;
/** The largest batch of more than one row. Ours have 4 MiB. */
const MAX_BATCH_BYTES = 64 * 2 ** 20;

/** Reads the rows of a file, one record batch at a time. */
export async function* readArrowRows(handle: FileHandle, file: FeatureFile): AsyncGenerator<Elements> {
  const { size, blocks } = await checkArrow(handle, file);
  for (const block of blocks) {
    const { offset, bytes, rows } = await locateValues(handle, block, size, file);
    const values = await readExactly(handle, offset, bytes, file.path);
    yield file.dtype === 'bool'
      ? unpackBits(values, rows * file.elements)
      : (createData(file.dtype, 0, values.buffer) as Elements);
  }
}

/** Where the rows of a file lie; undefined for bits. */
export async function locateArrowRows(
  handle: FileHandle,
  file: FeatureFile,
): Promise<StoredRows[] | undefined> {
  const { size, blocks } = await checkArrow(handle, file);
  if (file.dtype === 'bool') return undefined;
  const located: StoredRows[] = [];
  for (const block of blocks) {
    const { offset, rows } = await locateValues(handle, block, size, file);
    located.push({ offset, rows, dtype: file.dtype });
  }
  return located;
}

/** Compares the footer and the size with the manifest. Returns where the record batches lie. */
export async function checkArrow(
  handle: FileHandle,
  file: FeatureFile,
): Promise<{ readonly size: number; readonly blocks: readonly DataView[] }> {
  const { size } = await handle.stat();
  const { footer, start } = await readFooter(handle, size, file.path);
  const pairs = footer.table(FOOTER.schema)?.tables(SCHEMA.metadata) ?? [];
  checkFacts(file, new Map(pairs.map((pair) => [pair.text(PAIR.key), pair.text(PAIR.value)])));
  const blocks = footer.structs(FOOTER.recordBatches, BLOCK_BYTES);
  const last = blocks.at(-1);
  const end =
    last && Number(last.getBigInt64(0, true)) + last.getInt32(8, true) + Number(last.getBigInt64(16, true));
  // Bytes that were put in or taken out would move what the footer names.
  if (end !== undefined && end + END_OF_STREAM_BYTES !== start)
    throw datasetInvalid(file.path, `its record batches end at byte ${end}, its footer begins at ${start}`);
  return { size, blocks };
}

async function readFooter(
  handle: FileHandle,
  size: number,
  path: string,
): Promise<{ readonly footer: FlatTable; readonly start: number }> {
  const endBytes = 4 + MAGIC.length;
  if (size < 2 * endBytes) throw datasetInvalid(path, 'it is no Arrow file');
  const end = await readExactly(handle, size - endBytes, endBytes, path);
  const length = end.readInt32LE(0);
  if (end.toString('latin1', 4) !== MAGIC || length < 8 || length > Math.min(size, MAX_FOOTER_BYTES))
    throw datasetInvalid(path, 'it is no Arrow file');
  const start = Math.max(0, size - endBytes - length);
  return { footer: FlatTable.root(await readExactly(handle, start, length, path)), start };
}

/** Finds the values of a batch, which are its last buffer. */
async function locateValues(
  handle: FileHandle,
  block: DataView,
  size: number,
  { path, dtype, elements }: FeatureFile,
): Promise<{ readonly offset: number; readonly bytes: number; readonly rows: number }> {
  const start = Number(block.getBigInt64(0, true));
  const messageBytes = block.getInt32(8, true);
  if (start < 0 || messageBytes < 8 || messageBytes > MAX_MESSAGE_BYTES)
    throw datasetInvalid(path, 'a batch does not lie as onnx-tapir writes it');
  const message = await readExactly(handle, start, messageBytes, path);
  // Skip the marker and the size that come before the message.
  const table = FlatTable.root(message.subarray(8));
  const batch = table.uint8(MESSAGE.headerType) === RECORD_BATCH ? table.table(MESSAGE.header) : undefined;
  const buffer = batch?.structs(BATCH.buffers, BUFFER_BYTES).at(-1);
  const rows = batch?.int64(BATCH.length) ?? 0;
  const bytes = dtype === 'bool' ? Math.ceil((rows * elements) / 8) : rows * elements * elementBytes(dtype);
  const offset = buffer ? start + messageBytes + Number(buffer.getBigInt64(0, true)) : -1;
  const isOurs =
    rows > 0 &&
    offset >= start &&
    offset + bytes <= size &&
    bytes <= Number(buffer!.getBigInt64(8, true)) &&
    (rows === 1 || bytes <= MAX_BATCH_BYTES) &&
    !batch!.has(BATCH.compression);
  if (!isOurs) throw datasetInvalid(path, 'a batch does not lie as onnx-tapir writes it');
  return { offset, bytes, rows };
}
