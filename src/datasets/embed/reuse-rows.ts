/** Rows of other datasets, copied where the photo and all else that makes its vectors are the same. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { digestOf } from '../../base/digest.js';
import { TapirError } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { mapInOrder } from '../../base/map-in-order.js';
import { createData, elementBytes, elementCount, makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { isImageError } from '../../photos/images/file/image-errors.js';
import { readImageFile, type StampTaker } from '../../photos/images/file/image-file.js';
import type { DecodeLanes } from '../../photos/images/lanes/decode-lanes.js';
import { fileOf, type SourceItem } from '../../photos/feeds/items/source-item.js';
import { joinStamps } from '../../photos/feeds/read-item.js';
import type { TriedBatch, TriedInput } from '../../photos/feeds/tried-input.js';
import { PARTS } from '../files/file-names.js';
import { listParts } from '../merge/parts.js';
import { readJournal, type JournalShard } from '../files/journal.js';
import { featureFile, readInto } from '../formats/feature-format.js';
import { DIGEST, readMetadataGroups } from '../formats/metadata-columns.js';
import { checkNpy } from '../formats/npy.js';
import {
  compareIdentities,
  compareWeights,
  latestWeights,
  showDifferences,
  type DatasetIdentity,
} from '../records/dataset-identity.js';
import { locateFile } from '../records/locate-file.js';
import type { RunWeights } from '../records/run-record.js';

/** Photos that are looked up at once, by several threads, and rows that are copied at once. */
const LOOKED_AT = 32;
const COPIED = 256;
/** A shard has fewer rows. */
const MOST_ROWS = 2 ** 24;

/** Digits of the digest by which photos are compared: a short one, or the first of a SHA-256. */
const DIGEST_DIGITS = digestOf('').length / 2;
/** What is read of the photos that a dataset has. */
const REUSED_COLUMNS = [DIGEST, 'sha256', 'width', 'height'] as const;

/** A shard of a dataset whose rows can be copied. */
interface Shelf {
  readonly folder: string;
  readonly shard: JournalShard;
  /** Width and height of the photo of each row. */
  readonly sizes: Int32Array;
}

/** A photo that has rows already. */
interface Hit {
  readonly item: SourceItem;
  readonly stamp: FileStamp | null;
  /** The number of the shelf × {@link MOST_ROWS}, and the row in its shard. */
  readonly place: number;
}

/** The rows of some datasets by the digests of their photos: about 0.1 kB of memory for each. */
export class ReusableRows {
  readonly #shelves: Shelf[] = [];
  readonly #places = new Map<string, number>();

  private constructor() {}

  /**
   * Reads which photos the datasets have.
   *
   * @param identity - Of the run: what makes a vector must agree. Names, formats and checksums may differ.
   * @throws {@link TapirError} `DATASET_MISMATCH` for a dataset whose vectors this run would not give; `OPTION_INVALID` for a folder without a
   * dataset of .npy files, and for rows that are parts of photos; `DATASET_INVALID`.
   */
  static async open(
    folders: readonly string[],
    identity: DatasetIdentity,
    weights: readonly RunWeights[],
  ): Promise<ReusableRows> {
    const rows = new ReusableRows();
    for (const folder of folders) await rows.#read(folder, identity, weights);
    return rows;
  }

  async #read(folder: string, identity: DatasetIdentity, weights: readonly RunWeights[]): Promise<void> {
    const journal = await readJournal(folder);
    const parts = journal ? [] : await listParts(folder);
    // A merged dataset has the journals of its parts.
    for (const part of parts) await this.#read(join(folder, PARTS, part), identity, weights);
    if (parts.length > 0) return;
    if (journal?.identity.format !== 'npy') {
      const held = journal ? `whose features are ${journal.identity.format} files` : 'which holds no dataset';
      const expected = 'folders of datasets whose features are .npy files';
      throw invalidOption('reuse', expected, `${folder}, ${held}`);
    }
    const { name: _, ...there } = journal.identity;
    const { name: __, ...asked } = identity;
    const { format, checksum } = asked;
    const differences = [
      ...compareIdentities({ ...there, format, checksum }, asked),
      ...compareWeights(latestWeights(journal.runs) ?? [], weights),
    ];
    if (differences.length > 0) {
      const list = showDifferences(differences, 'there', 'in this run');
      const message = `the rows of "${folder}" cannot be reused, because they were made with other settings: ${list}`;
      throw new TapirError('DATASET_MISMATCH', message, { details: { path: folder, differences } });
    }
    for (const shard of journal.shards) {
      const sizes = new Int32Array(2 * shard.rows);
      const base = this.#shelves.push({ folder, shard, sizes }) - 1;
      const metadata = await locateFile(folder, shard.metadata);
      for await (const group of readMetadataGroups(metadata, { own: REUSED_COLUMNS }))
        for (let i = 0; i < group.length; i++) {
          const digest = group.textAt(DIGEST, i) ?? group.textAt('sha256', i)?.slice(0, DIGEST_DIGITS);
          if (group.rows[i]! < 0 || digest === undefined) continue;
          const at = group.rows[i]! - shard.firstRow;
          const { width, height } = group.sizeAt(i);
          sizes.set([width ?? 0, height ?? 0], 2 * at);
          this.#places.set(digest, base * MOST_ROWS + at);
        }
    }
  }

  /**
   * Passes on the photos that no dataset has.
   *
   * @param lanes - Read and hash files.
   * @param append - Takes the rows of the others, in their order, while the rest is embedded.
   */
  async *left<Item extends SourceItem>(
    items: AsyncIterable<Item> | Iterable<Item>,
    lanes: DecodeLanes,
    append: (batch: TriedBatch) => Promise<void>,
  ): AsyncGenerator<Item> {
    let hits: Hit[] = [];
    const flush = async (): Promise<void> => {
      const batch = await this.#copy(hits);
      hits = [];
      await append(batch);
    };
    for await (const found of mapInOrder(items, LOOKED_AT, (item) => this.#lookUp(item, lanes))) {
      if ('place' in found) hits.push(found);
      else yield found.item;
      if (hits.length >= COPIED) await flush();
    }
    if (hits.length > 0) await flush();
  }

  /** A photo that cannot be read is left to the run, which says why. */
  async #lookUp<Item extends SourceItem>(
    item: Item,
    lanes: DecodeLanes,
  ): Promise<Hit | { readonly item: Item }> {
    if (item.error) return { item };
    const isLater = typeof item.image === 'function';
    try {
      const file = await fileOf(item);
      // Bytes would be copied for another thread.
      const stamp = typeof file === 'string' ? await lanes.stampOf(file) : stampOfBytes(file, lanes);
      const place = this.#places.get(stamp.digest!);
      // What had to be fetched is not fetched again.
      if (place === undefined) return { item: isLater ? { ...item, image: file } : item };
      return { item, stamp: joinStamps(stamp, item.stamp), place };
    } catch (error) {
      if (!isImageError(error)) throw error;
      return { item: isLater ? { ...item, image: () => Promise.reject(error) } : item };
    }
  }

  /** The rows of photos, as a batch. */
  async #copy(hits: readonly Hit[]): Promise<TriedBatch> {
    const items = hits.map(({ item, stamp, place }, at): TriedInput => {
      const { sizes } = this.#shelves[Math.floor(place / MOST_ROWS)]!;
      const [width, height] = sizes.subarray(2 * (place % MOST_ROWS));
      const { path, columns } = item;
      const size = { width: width!, height: height!, reduction: 1 };
      return { path, columns, rows: [at, 1], ...size, stamp, isReused: true, error: null };
    });
    const keys = Object.keys(this.#shelves[Math.floor(hits[0]!.place / MOST_ROWS)]!.shard.features);
    const features: Record<string, Tensor> = {};
    for (const key of keys) features[key] = await this.#rowsOf(key, hits);
    return { items, features };
  }

  /** A tensor with a row for each photo, as it is stored: bit for bit. */
  async #rowsOf(key: string, hits: readonly Hit[]): Promise<Tensor> {
    const byShelf = new Map<number, number[]>();
    for (const [at, { place }] of hits.entries()) {
      const shelf = Math.floor(place / MOST_ROWS);
      byShelf.set(shelf, [...(byShelf.get(shelf) ?? []), at]);
    }
    const { dtype, dims } = this.#shelves[byShelf.keys().next().value!]!.shard.features[key]!;
    const rowBytes = elementCount(dims) * elementBytes(dtype);
    const bytes = new Uint8Array(hits.length * rowBytes);
    for (const [number, places] of byShelf) {
      const { folder, shard } = this.#shelves[number]!;
      const path = join(folder, shard.features[key]!.path);
      await using handle = await open(await locateFile(folder, shard.features[key]!.path));
      const { rows, firstRow } = shard;
      const offset = await checkNpy(handle, featureFile({ key, dtype, dims }, { path, rows, firstRow }));
      for (let from = 0, count = 1; from < places.length; from += count, count = 1) {
        const at = places[from]!;
        const first = hits[at]!.place;
        // Rows that follow each other there and here are read at once.
        while (places[from + count] === at + count && hits[at + count]!.place === first + count) count++;
        const start = offset + (first % MOST_ROWS) * rowBytes;
        await readInto(handle, start, bytes.subarray(at * rowBytes, (at + count) * rowBytes), path);
      }
    }
    return makeTensor(dtype, [hits.length, ...dims], createData(dtype, 0, bytes.buffer) as Float32Array);
  }
}

function stampOfBytes(file: Uint8Array, { checksum }: DecodeLanes): FileStamp {
  const taker: StampTaker = { checksum };
  readImageFile(file, taker);
  return taker.stamp!;
}
