/** Rows of a feature in blocks of one size, whatever pieces their file is read in. */
import type { FeatureFile } from '../formats/feature-format.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';

/** Consecutive rows of a feature. */
export interface FeatureBlock {
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  readonly rows: number;
  /** The dims of one row. */
  readonly dims: readonly number[];
  /** `rows × product(dims)` elements in C order. The caller may change them. */
  readonly data: Float32Array;
}

/**
 * Cuts pieces of whole rows into blocks of `rowsPerBlock` rows; the last block has the rest.
 *
 * @throws {@link TapirError} `DATASET_INVALID` if the pieces hold more or fewer rows than the manifest says.
 */
export async function* cutBlocks(
  file: FeatureFile,
  pieces: AsyncIterable<Float32Array>,
): AsyncGenerator<Omit<FeatureBlock, 'dims'>> {
  const { elements, rowsPerBlock } = file;
  let block: Float32Array | undefined;
  let filled = 0;
  let done = 0;
  for await (const piece of pieces) {
    if (piece.length > (file.rows - done) * elements - filled) throw miscounted(file, 'more');
    for (let at = 0; at < piece.length;) {
      const room = Math.min(rowsPerBlock, file.rows - done) * elements;
      // A piece of exactly one block is not copied. For .npy, this is the usual case.
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
  return datasetInvalid(file.path, `it holds ${which} rows than the manifest says (${file.rows})`);
}
