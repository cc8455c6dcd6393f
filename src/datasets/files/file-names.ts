/**
 * The names of all files and folders that a dataset consists of, besides its lock. Nothing else in its folder is ever changed or
 * removed.
 */
import { posix } from 'node:path';
import { isTemporary } from '../../base/atomic-file.js';
import type { FeatureFormat } from '../formats/feature-files.js';

/** The record of what is finished. */
export const JOURNAL_FILE = 'journal.jsonl';
/** The description of a finished dataset. */
export const MANIFEST_FILE = 'manifest.json';
/** The columns that were saved for the dataset after its runs, if there are any. */
export const COLUMNS_FILE = 'columns.parquet';
/** The folder with a folder of feature files per output. */
export const FEATURES = 'features';
/** The folder of the metadata files. */
export const METADATA = 'metadata';
/** The folder of the parts of a sharded dataset. Each part is a dataset. */
export const PARTS = 'parts';

/** `jsonl` was a feature format of earlier versions. */
const FEATURE_FILE = /^features\/([^/]+)\/\1-\d{5,}(?:\.piece-\d{3,})?\.(?:npy|arrow|parquet|jsonl)$/;
const METADATA_FILE = /^metadata\/metadata-\d{5,}(?:\.piece-\d{3,})?\.parquet$/;

/** The folders that hold files of shards only. */
const SHARD_FOLDER = /^(?:features\/[^/]+|metadata)$/;

/** Returns the path of a shard's metadata, relative to the dataset. */
export function metadataPath(shard: number): string {
  return `${METADATA}/metadata-${digits(shard)}.parquet`;
}

/** Returns the path of a shard's feature file, relative to the dataset. `folder` is the output's (see `folderNames`). */
export function featurePath(folder: string, shard: number, format: FeatureFormat): string {
  return `${FEATURES}/${folder}/${folder}-${digits(shard)}.${format}`;
}

/** Returns the path of a piece of a shard's file: `metadata/metadata-00003.piece-000.parquet`. */
export function piecePath(path: string, piece: number): string {
  const { dir, name, ext } = posix.parse(path);
  return `${dir}/${name}.piece-${String(piece).padStart(3, '0')}${ext}`;
}

/** Whether a path, relative to the dataset and with `/`, has a name that this package gives to files of shards and of their pieces, finished or not. */
export function isShardFile(path: string): boolean {
  const { dir, base } = posix.parse(path);
  return FEATURE_FILE.test(path) || METADATA_FILE.test(path) || (isTemporary(base) && SHARD_FOLDER.test(dir));
}

function digits(shard: number): string {
  return String(shard).padStart(5, '0');
}
