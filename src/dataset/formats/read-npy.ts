/** Reads NumPy's `.npy` files, a block at a time. */
import { open, type FileHandle } from 'node:fs/promises';
import { elementBytes } from '../../tensor/tensor.js';
import { NPY_DESCRIPTORS } from './write-npy.js';
import { datasetInvalid, datasetUnreadable } from './dataset-invalid.js';
import type { FeatureFile } from './feature-file.js';
import { widen } from './widen.js';

/** Longest header that is read; ours have 192 bytes. */
const MAX_HEADER_BYTES = 65_536;

/** The rows of a `.npy` file of C order. */
export async function* readNpyRows(file: FeatureFile): AsyncGenerator<Float32Array> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(file.path);
    let offset = await checkHeader(handle, file);
    const rowBytes = file.elements * elementBytes(file.dtype);
    const { size } = await handle.stat();
    if (size < offset + file.rows * rowBytes)
      throw datasetInvalid(file.path, `it has ${size} bytes, ${file.rows} rows need ${file.rows * rowBytes}`);
    for (let row = 0; row < file.rows; row += file.rowsPerBlock) {
      const rows = Math.min(file.rowsPerBlock, file.rows - row);
      const bytes = new ArrayBuffer(rows * rowBytes);
      await readExactly(handle, new Uint8Array(bytes), offset, file.path);
      offset += bytes.byteLength;
      yield widen(file.dtype, bytes);
    }
  } catch (error) {
    throw datasetUnreadable(file.path, error);
  } finally {
    await handle?.close();
  }
}

/** Compares the header with what the manifest says; returns where the rows begin. */
async function checkHeader(handle: FileHandle, file: FeatureFile): Promise<number> {
  const start = Buffer.alloc(12);
  await readExactly(handle, start, 0, file.path);
  const version = start[6]!;
  if (start.toString('latin1', 0, 6) !== '\u0093NUMPY' || version < 1 || version > 3)
    throw datasetInvalid(file.path, 'it is no .npy file');
  const from = version === 1 ? 10 : 12;
  const length = version === 1 ? start.readUInt16LE(8) : start.readUInt32LE(8);
  if (length > MAX_HEADER_BYTES) throw datasetInvalid(file.path, `its header has ${length} bytes`);
  const header = Buffer.alloc(length);
  await readExactly(handle, header, from, file.path);
  const text = header.toString('latin1');
  const descriptor = /'descr':\s*'([^']*)'/.exec(text)?.[1] ?? '';
  const shape = (/'shape':\s*\(([^)]*)\)/.exec(text)?.[1] ?? '').split(',').flatMap(toSize);
  const expected = [file.rows, ...file.dims];
  if (descriptor !== NPY_DESCRIPTORS[file.dtype] || !/'fortran_order':\s*False/.test(text))
    throw datasetInvalid(file.path, `it holds "${descriptor}", the manifest says ${file.dtype} in C order`);
  if (shape.join() !== expected.join())
    throw datasetInvalid(file.path, `its shape is [${shape.join()}], the manifest says [${expected.join()}]`);
  return from + length;
}

function toSize(part: string): number[] {
  return part.trim() === '' ? [] : [Number(part)];
}

/** Fills `bytes` from an offset of the file. Throws `DATASET_INVALID` if it ends before. */
export async function readExactly(
  handle: FileHandle,
  bytes: Uint8Array,
  offset: number,
  path: string,
): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    const { bytesRead } = await handle.read(bytes, done, bytes.byteLength - done, offset + done);
    if (bytesRead === 0) throw datasetInvalid(path, `it ends at byte ${offset + done}, too early`);
    done += bytesRead;
  }
}
