/** What a run hands to the dataset: batches of inputs that were tried, and the features of those that succeeded. */
import type { ImageErrorCode, TapirError } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import type { ItemColumns } from './items/source-item.js';
import type { Marks } from '../images/formats/marks.js';
import type { Tile } from '../images/pixels/tile-grid.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';

/** The tiles of a picture in one batch. Its tiles may be rows of many batches. */
export interface CutRows {
  /** Of each row. */
  readonly tiles: readonly Tile[];
  /** Whether earlier batches have tiles of it. */
  readonly isBegun: boolean;
  /** The index of the tile at which it goes on in the next batch; null where it ends. */
  readonly next: number | null;
}

/** An input that was read, or the reason why it could not be read. */
export interface TriedInput {
  readonly path: string | null;
  /** Its rows among those of its batch: the first, and how many there are; of a picture in tiles, those of this batch. None for an error. */
  readonly rows: readonly [first: number, count: number];
  /** Size of the image in pixels; null if it could not be read. */
  readonly width: number | null;
  readonly height: number | null;
  /** By how much the decoder reduced each side; 1 if it did not. */
  readonly reduction: number;
  /** Left out for what could not be read. */
  readonly marks?: Marks;
  /** Of a picture in tiles. */
  readonly cut?: CutRows;
  /** Of a clip: its first frame. */
  readonly clipStart?: number | undefined;
  /** By how much its 8-bit values differ from the exact ones, if that was measured. */
  readonly deviation?: { readonly mean: number; readonly max: number };
  /** The stamp of its file when it was read; null if unknown. */
  readonly stamp: FileStamp | null;
  readonly columns?: ItemColumns | undefined;
  /** Its row was copied from another dataset. */
  readonly isReused?: true;
  readonly error: TapirError<ImageErrorCode> | null;
}

/** The inputs of a batch in order, and the features of those without an error. */
export interface TriedBatch {
  readonly items: readonly TriedInput[];
  /** By output key. The first axis is the inputs without an error, in order. Empty if all failed. */
  readonly features: Readonly<Record<string, Tensor>>;
}

/** What a row covers of its photo. */
export interface RowPart {
  /** The number of its crop; null where a photo has one crop, or the mean of several. */
  readonly crop: number | null;
  /** Null for a whole photo. */
  readonly tile: Tile | null;
  /** The first frame of a clip; null for a photo. */
  readonly clipStart: number | null;
}

/** A row of a whole photo. */
export const WHOLE: RowPart = { crop: null, tile: null, clipStart: null };

/** An input with one of its rows among the features of its batch; null for an input that could not be read. */
export interface InputRow<Item extends TriedInput = TriedInput> {
  readonly item: Item;
  readonly row: number | null;
  readonly part: RowPart;
}

/** The rows of a batch, in order. An input that could not be read has one entry. */
export function* rowsOfInputs<Item extends TriedInput>(items: Iterable<Item>): Generator<InputRow<Item>> {
  for (const item of items) {
    const [first, count] = item.rows;
    if (item.error) yield { item, row: null, part: { ...WHOLE, clipStart: item.clipStart ?? null } };
    for (let i = 0; i < count; i++) yield { item, row: first + i, part: partOf(item, i) };
  }
}

function partOf({ cut, clipStart, rows: [, count] }: TriedInput, i: number): RowPart {
  if (cut) return { ...WHOLE, tile: cut.tiles[i]! };
  if (clipStart !== undefined) return { ...WHOLE, clipStart };
  return count === 1 ? WHOLE : { ...WHOLE, crop: i };
}
