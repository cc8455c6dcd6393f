/** The files of a dataset: features and metadata, shard by shard. */
import { join } from 'node:path';
import { TapirError } from '../errors.js';
import type { DType, Tensor } from '../runtime/tensor.js';
import type { EmbeddedBatch } from './embed-batches.js';
import { encodeFloat16 } from '../runtime/float16.js';
import { unwritable, writeAtomically } from './sinks/atomic-file.js';
import { makeFolder } from './sinks/make-folder.js';
import { MetadataTable } from './sinks/metadata.js';
import { NpyWriter } from './sinks/npy.js';

/** A finished shard, as the manifest lists it. Paths are relative to the dataset, with `/`. */
export interface ShardRecord {
  /** Inputs it covers, rows with and without features. */
  readonly inputs: number;
  /** Rows with features. */
  readonly rows: number;
  /** Row number of the first one, over all shards. */
  readonly firstRow: number;
  readonly metadata: string;
  /** Feature file by output key; none if no input of the shard could be read. */
  readonly features: Readonly<Record<string, string>>;
}

/** What the features of an output are. */
export interface FeatureRecord {
  readonly dtype: DType;
  /** Dims of one row. */
  readonly dims: readonly number[];
}

/** Writes batches into shards. */
export class ShardWriter {
  readonly #out: string;
  readonly #folders: ReadonlyMap<string, string>;
  readonly #shardSize: number;
  readonly #half: boolean;
  /** Finished shards. */
  readonly shards: ShardRecord[] = [];
  /** Outputs seen so far, by key. */
  readonly features: Map<string, FeatureRecord> = new Map();
  #rows = 0;
  #pending = new MetadataTable();
  #writers = new Map<string, NpyWriter>();

  /**
   * @param folders - Folder name by output key.
   * @param shardSize - Inputs per shard; a multiple of the batch.
   * @param half - Write float32 features as float16.
   */
  constructor(out: string, folders: ReadonlyMap<string, string>, shardSize: number, half: boolean) {
    this.#out = out;
    this.#folders = folders;
    this.#shardSize = shardSize;
    this.#half = half;
  }

  /** Makes the folders. Throws `OUTPUT_UNWRITABLE`. */
  async open(): Promise<void> {
    const folders = ['metadata', ...[...this.#folders.values()].map((folder) => `features/${folder}`)];
    try {
      for (const folder of folders) await makeFolder(join(this.#out, folder));
    } catch (error) {
      throw unwritable(this.#out, error);
    }
  }

  /** Appends a batch; a full shard is completed. */
  async append(batch: EmbeddedBatch): Promise<void> {
    for (const [key, tensor] of Object.entries(batch.features))
      await this.#appendFeature(key, this.#stored(tensor));
    for (const item of batch.items) this.#pending.add(item, item.error ? null : this.#rows++);
    if (this.#pending.length >= this.#shardSize) await this.#finishShard();
  }

  /** Completes the last shard. */
  async finish(): Promise<void> {
    if (this.#pending.length > 0) await this.#finishShard();
  }

  /** Removes the files of the shard under way. */
  async discard(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.discard();
    this.#writers.clear();
  }

  #stored(tensor: Tensor): Tensor {
    if (!this.#half || tensor.dtype !== 'float32') return tensor;
    return { dtype: 'float16', dims: tensor.dims, data: encodeFloat16(tensor.data as Float32Array) };
  }

  async #appendFeature(key: string, tensor: Tensor): Promise<void> {
    const [rows, ...dims] = tensor.dims;
    this.#checkSame(key, tensor);
    let writer = this.#writers.get(key);
    if (!writer) {
      const path = join(this.#out, this.#featurePath(key));
      writer = await NpyWriter.create(path, tensor.dtype, dims);
      this.#writers.set(key, writer);
      this.features.set(key, { dtype: tensor.dtype, dims });
    }
    // String outputs were refused when the file was created.
    await writer.append(tensor.data as Exclude<Tensor['data'], string[]>, rows!);
  }

  /** All rows of an output have the dims and dtype of the first one. */
  #checkSame(key: string, { dtype, dims }: Tensor): void {
    const known = this.features.get(key);
    if (!known || (known.dtype === dtype && known.dims.join() === dims.slice(1).join())) return;
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has rows of [${dims.slice(1).join(', ')}] after rows of [${known.dims.join(', ')}], so it makes no array; ask for another tensor`,
      { details: { output: key, dims, rows: dims[0]! } },
    );
  }

  #number(): string {
    return String(this.shards.length).padStart(5, '0');
  }

  #featurePath(key: string): string {
    const folder = this.#folders.get(key)!;
    return `features/${folder}/${folder}-${this.#number()}.npy`;
  }

  async #finishShard(): Promise<void> {
    const features: Record<string, string> = {};
    let rows = 0;
    for (const [key, writer] of this.#writers) {
      features[key] = this.#featurePath(key);
      rows = await writer.finish();
    }
    this.#writers.clear();
    const metadata = `metadata/metadata-${this.#number()}.parquet`;
    await writeAtomically(join(this.#out, metadata), await this.#pending.encode());
    this.shards.push({ inputs: this.#pending.length, rows, firstRow: this.#rows - rows, metadata, features });
    this.#pending = new MetadataTable();
  }
}
