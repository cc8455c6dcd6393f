/** Datasets of given vectors on disk, as embedFolder writes them. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { encodeNpyHeader } from '../../src/datasets/formats/npy.js';
import type { Dataset } from '../../src/datasets/files/dataset.js';
import { scratchFolder } from './fixtures.js';

/** An input. */
export interface StoredInput {
  readonly path: string | null;
  /** Left out for one that failed. */
  readonly row?: number;
  readonly errorCode?: string | null;
  readonly width?: number;
  readonly sizeBytes?: number | null;
}

/** What to write. */
export interface StoredShape {
  readonly key: string;
  readonly rows: readonly ArrayLike<number>[];
  readonly dims?: readonly number[];
  /** Rows per shard. */
  readonly shard?: number;
  /** In the order of the metadata; those of a shard follow each other. */
  readonly inputs: readonly StoredInput[];
}

/** Writes a dataset. Its functions open it when they are called. */
export function storeDataset(
  { key, rows, dims = [rows[0]?.length ?? 3], shard = rows.length, inputs }: StoredShape,
  open: (folder: string) => Promise<Dataset>,
): Dataset {
  const folder = mkdtempSync(join(scratchFolder(), 'stored-'));
  for (const name of ['metadata', 'features']) mkdirSync(join(folder, name));
  const count = Math.max(1, Math.ceil(rows.length / Math.max(1, shard)));
  const shards = Array.from({ length: count }, (_, i) => {
    const firstRow = i * shard;
    const own = rows.slice(firstRow, firstRow + shard);
    const listed = inputs.filter(({ row }) =>
      row === undefined ? i === 0 : row >= firstRow && row < firstRow + own.length,
    );
    const files = { metadata: `metadata/${i}.parquet`, features: `features/${i}.npy` };
    const data = Float32Array.from(own.flatMap((row) => Array.from(row)));
    const header = encodeNpyHeader('float32', [own.length, ...dims]);
    writeFileSync(join(folder, files.features), Buffer.concat([header, new Uint8Array(data.buffer)]));
    writeFileSync(join(folder, files.metadata), encodeMetadata(listed));
    return {
      inputs: listed.length,
      rows: own.length,
      deadRows: 0,
      firstRow,
      metadata: files.metadata,
      features: own.length > 0 ? { [key]: files.features } : {},
    };
  });
  const ok = inputs.filter(({ row }) => row !== undefined).length;
  const manifest = {
    format: 'onnx-tapir dataset',
    formatVersion: 1,
    createdAt: '2026-01-01T00:00:00.000Z',
    source: { kind: 'table', location: null },
    model: null,
    request: [],
    transform: null,
    versions: {},
    run: null,
    runs: [],
    counts: { inputs: inputs.length, ok, errors: inputs.length - ok },
    features: { [key]: { folder: 'features', format: 'npy', dtype: 'float32', dims, rows: rows.length } },
    shards,
  } as unknown as Dataset['manifest'];
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify(manifest));
  return {
    folder,
    manifest,
    rows: async function* () {
      yield* (await open(folder)).rows();
    },
    blocks: async function* (...given) {
      yield* (await open(folder)).blocks(...given);
    },
    vectors: async function* (...given) {
      yield* (await open(folder)).vectors(...given);
    },
  };
}

function encodeMetadata(inputs: readonly StoredInput[]): Uint8Array {
  const nothing = inputs.map(() => null);
  const text = (name: string, data: (string | null)[]) => ({ name, type: 'STRING' as const, data });
  const whole = (name: string, data: (number | null | undefined)[]) => ({
    name,
    type: 'INT64' as const,
    data: data.map((value) => (value === undefined || value === null ? null : BigInt(value))),
  });
  const columnData = [
    text(
      'path',
      inputs.map(({ path }) => path),
    ),
    text(
      'status',
      inputs.map(({ row }) => (row === undefined ? 'error' : 'ok')),
    ),
    whole(
      'row',
      inputs.map(({ row }) => row),
    ),
    text(
      'error_code',
      inputs.map(({ errorCode = null }) => errorCode),
    ),
    text('error_message', nothing),
    whole(
      'width',
      inputs.map(({ width = 1 }) => width),
    ),
    whole(
      'height',
      inputs.map(() => 1),
    ),
    whole(
      'size_bytes',
      inputs.map(({ sizeBytes }) => sizeBytes),
    ),
    { name: 'modified', type: 'TIMESTAMP' as const, data: nothing },
    text('sha256', nothing),
  ];
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}
