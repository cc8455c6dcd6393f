/** What a reader of feature files is given, and what it gives: pieces of whole rows, which are cut into blocks here. */
import type { DType } from '../../tensor/tensor.js';
import { datasetInvalid } from './dataset-invalid.js';

/** A feature file, and what the manifest says of it. */
export interface FeatureFile {
  readonly path: string;
  /** The output's key: the name of its column. */
  readonly key: string;
  readonly dtype: DType;
  /** Dims of one row, and their product. */
  readonly dims: readonly number[];
  readonly elements: number;
  readonly rows: number;
  /** Row number of its first row, over all shards. */
  readonly firstRow: number;
  /** Most rows to hold at once, where the format lets a reader choose. */
  readonly rowsPerBlock: number;
}

/** Reads a file's rows in order, any number at a time. Throws `DATASET_INVALID`. */
export type FeatureReader = (file: FeatureFile) => AsyncIterable<Float32Array>;

/** Cuts pieces into blocks of `rowsPerBlock` rows (the last one has the rest) and counts them. */
export async function* cutBlocks(
  file: FeatureFile,
  pieces: AsyncIterable<Float32Array>,
): AsyncGenerator<{ readonly firstRow: number; readonly rows: number; readonly data: Float32Array }> {
  const { elements, rowsPerBlock } = file;
  let block: Float32Array | undefined;
  let filled = 0;
  let done = 0;
  for await (const piece of pieces) {
    if (piece.length > (file.rows - done) * elements - filled) throw miscounted(file, 'more');
    for (let at = 0; at < piece.length;) {
      const room = Math.min(rowsPerBlock, file.rows - done) * elements;
      // A piece that makes a whole block is one: the usual case of .npy, without a copy.
      const isWhole = filled === 0 && at === 0 && piece.length === room;
      if (isWhole) block = piece;
      block ??= new Float32Array(room);
      const taken = Math.min(room - filled, piece.length - at);
      if (!isWhole) block.set(piece.subarray(at, at + taken), filled);
      at += taken;
      filled += taken;
      if (filled === room) {
        const rows = room / elements;
        yield { firstRow: file.firstRow + done, rows, data: block };
        done += rows;
        block = undefined;
        filled = 0;
      }
    }
  }
  if (elements === 0) yield { firstRow: file.firstRow, rows: file.rows, data: new Float32Array() };
  else if (done < file.rows) throw miscounted(file, 'fewer');
}

function miscounted(file: FeatureFile, which: 'more' | 'fewer'): Error {
  return datasetInvalid(file.path, `it holds ${which} rows than the manifest says, ${file.rows}`);
}
