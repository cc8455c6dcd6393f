/** The pieces of a shard that is not full yet: saved in time, then joined to the files that it would have had at once. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import { createData, makeTensor } from '../../onnx/tensor/tensor.js';
import {
  checkFeatureFile,
  createFeatureWriter,
  readStoredRows,
  type FeatureFormat,
  type FeatureWriter,
} from '../formats/feature-files.js';
import { featureFile, type FeatureFile } from '../formats/feature-format.js';
import { MetadataTable, readMetadata, type MetadataRow } from '../formats/metadata.js';
import type { PartKind } from '../formats/part-columns.js';
import { piecePath } from './file-names.js';
import type { JournalOpen, JournalShard } from './journal.js';

/** What a shard in pieces will be. */
type Whole = Omit<JournalShard, 'type'>;

/** A piece that was read: its metadata, and its features where it has rows. */
interface Piece {
  readonly metadata: readonly MetadataRow[];
  /** Of each row of the features. */
  readonly paths: readonly (string | null)[];
  readonly features: readonly FeatureFile[];
}

/** The metadata files of an open shard, each as a shard: their inputs have its number. */
export function piecesOf(open: JournalOpen | undefined): Whole[] {
  const { unfinished, ...whole } = open ?? {};
  return Array.from({ length: open?.pieces ?? 0 }, (_, piece) => ({
    ...(whole as JournalOpen),
    inputs: piece === 0 ? open!.inputs : 0,
    metadata: piecePath(open!.metadata, piece),
    // Later pieces go on.
    ...(unfinished && piece + 1 === open!.pieces && { unfinished }),
  }));
}

/** The paths of all files that an open shard may have. */
export function pieceFilesOf(open: Pick<JournalOpen, 'metadata' | 'features' | 'pieces'>): string[] {
  const files = [open.metadata, ...Object.values(open.features).map(({ path }) => path)];
  return Array.from({ length: open.pieces }, (_, piece) =>
    files.map((file) => piecePath(file, piece)),
  ).flat();
}

/** Checks that the files of an open shard are there, and that they hold as much as the journal says. Throws `DATASET_INVALID`. */
export async function checkPieces(out: string, open: JournalOpen): Promise<void> {
  for await (const { features } of readPieces(out, open, open.pieces))
    for (const file of features) await checkFeatureFile(file);
}

/** Writes the files of a shard from its pieces. Throws `DATASET_INVALID`; `OUTPUT_UNWRITABLE`; the reason of the signal. */
export async function joinPieces(
  out: string,
  shard: Whole,
  pieces: number,
  {
    format,
    parts,
    signal,
  }: {
    readonly format: FeatureFormat;
    readonly parts?: PartKind | undefined;
    readonly signal?: AbortSignal | undefined;
  },
): Promise<void> {
  const table = new MetadataTable(parts);
  const writers = new Map<string, FeatureWriter>();
  try {
    for await (const { metadata, paths, features } of readPieces(out, shard, pieces)) {
      for (const row of metadata) table.add(row);
      for (const file of features) {
        const { key, dtype, dims, elements } = file;
        const path = join(out, shard.features[key]!.path);
        const writer = writers.get(key) ?? (await createFeatureWriter(format, path, key, dtype, dims));
        writers.set(key, writer);
        let at = 0;
        const blocks = elements === 0 ? [createData(dtype, 0)] : readStoredRows(file);
        for await (const data of blocks) {
          signal?.throwIfAborted();
          const rows = elements === 0 ? file.rows : data.length / elements;
          const tensor = makeTensor(dtype, [rows, ...dims], data);
          await writer.append({ tensor, firstRow: file.firstRow + at, paths: paths.slice(at, at + rows) });
          at += rows;
        }
      }
    }
    for (const writer of writers.values()) await writer.finish();
    await writeAtomically(join(out, shard.metadata), await table.encode());
  } catch (error) {
    for (const writer of writers.values()) await writer.discard();
    throw error;
  }
}

/** Removes the pieces of a shard that is finished. What cannot be removed now goes when the next run begins. */
export async function removePieces(out: string, shard: Whole, pieces: number): Promise<void> {
  for (const file of pieceFilesOf({ ...shard, pieces }))
    await rm(join(out, file), { force: true }).catch(() => undefined);
}

async function* readPieces(out: string, shard: Whole, pieces: number): AsyncGenerator<Piece> {
  const { inputs, rows, firstRow } = shard;
  let nextRow = firstRow;
  let found = 0;
  for (let piece = 0; piece < pieces; piece++) {
    const metadata: MetadataRow[] = [];
    for await (const row of readMetadata(join(out, piecePath(shard.metadata, piece)))) metadata.push(row);
    const paths = metadata.filter(({ row }) => row !== null).map(({ path }) => path);
    const features: FeatureFile[] = [];
    if (paths.length > 0)
      for (const [key, { path, dtype, dims }] of Object.entries(shard.features)) {
        const place = { path: join(out, piecePath(path, piece)), rows: paths.length, firstRow: nextRow };
        features.push(featureFile({ key, dtype, dims }, place));
      }
    yield { metadata, paths, features };
    nextRow += paths.length;
    found += metadata.length;
  }
  if (found !== inputs || nextRow !== firstRow + rows)
    throw datasetInvalid(
      join(out, shard.metadata),
      `its ${pieces} pieces hold ${found} inputs with ${nextRow - firstRow} rows, the journal says ${inputs} with ${rows}`,
    );
}
