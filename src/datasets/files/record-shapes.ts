/** The forms of what a journal and a manifest keep, as far as readers rely on them. */
import { isPlainObject } from '../../base/checks.js';
import {
  anything,
  count,
  fields,
  flag,
  listOf,
  nullable,
  number,
  optional,
  recordOf,
  text,
  type Shape,
  type Shapes,
} from '../../base/shapes.js';
import { isDType } from '../../onnx/tensor/tensor.js';
import { staysInside } from '../records/locate-file.js';

/** The largest row of features, in elements: far above any model's, and small enough for a typed array. */
const MAX_ROW_ELEMENTS = 2 ** 28;

/** The dtype and the dims of a row. */
export function isFeature(value: unknown): boolean {
  if (!isPlainObject(value) || !isDType(value['dtype']) || value['dtype'] === 'string') return false;
  const { dims } = value;
  if (!listOf(count)(dims)) return false;
  return (dims as number[]).reduce((product, size) => product * size, 1) <= MAX_ROW_ELEMENTS;
}

const place: Shape = (value) => typeof value === 'string' && staysInside(value);
const decoder = optional(fields({ sharp: nullable(text), libvips: nullable(text) }));
const comparison = fields({
  images: count,
  cosine: recordOf(fields({ least: nullable(number), mean: nullable(number) })),
});
const weights = listOf(fields({ path: text, bytes: count, sha256: text }));
const request = listOf(fields({ key: text, tensor: text, computed: listOf(text) }));

const marked = fields({ turned: count, transparent: count });
const candidate = fields({
  engine: text,
  device: text,
  precision: text,
  imagesPerSecond: nullable(number),
  cosine: nullable(number),
  neighbours: nullable(number),
  top1: nullable(number),
  memoryBytes: nullable(number),
  reason: nullable(text),
});

/** A run, in a journal and in a manifest. */
export const RUN_SHAPE: Shapes = {
  startedAt: text,
  firstShard: count,
  device: text,
  threads: listOf(number),
  batch: count,
  shardSize: count,
  version: text,
  weights: optional(weights),
  choice: optional(listOf(candidate)),
};

/** A shard of a journal. */
export const SHARD_SHAPE: Shapes = {
  number: count,
  inputs: count,
  rows: count,
  firstRow: count,
  metadata: place,
  features: recordOf((value) => isFeature(value) && place((value as { readonly path?: unknown }).path)),
  goesOn: optional(listOf(text)),
  unfinished: optional(fields({ path: text, tile: count })),
  reduced: fields({ images: count, measured: count, sum: number, max: number }),
  marked: optional(marked),
  reused: optional(count),
  decoder,
  againstFloat32: optional(comparison),
};

/** Pieces of a shard: a week of one minute each. A shard with as many is finished, full or not. */
export const MOST_PIECES = 10_000;

/** A shard of a journal that is not full yet. */
export const OPEN_SHAPE: Shapes = {
  ...SHARD_SHAPE,
  pieces: (value) => count(value) && (value as number) <= MOST_PIECES,
  isAgain: optional(flag),
};

/** What the runs of a dataset have in common. */
export const IDENTITY_SHAPE: Shapes = {
  model: nullable(fields({ bytes: count, sha256: text })),
  request,
  transform: fields({}),
  engine: optional(text),
  precision: optional(text),
  floatPrecision: optional(text),
  lowering: optional(text),
  cropRows: optional(text),
  tiles: optional(fields({})),
  clips: optional(fields({})),
  name: optional(text),
  keepDims: flag,
  dtype: text,
  format: text,
  checksum: flag,
};

/** The rest of a manifest: what is not checked shard by shard. */
export const MANIFEST_SHAPE: Shapes = {
  createdAt: text,
  source: fields({ kind: text, location: nullable(text) }),
  model: nullable(
    fields({
      file: text,
      bytes: count,
      sha256: text,
      externalFiles: listOf(text),
      weights: optional(weights),
    }),
  ),
  request,
  transform: nullable(fields({})),
  versions: fields({}),
  run: nullable(
    fields({
      device: text,
      againstFloat32: optional(nullable(comparison)),
      reduced: nullable(fields({ images: count, deviation: anything })),
      marked: optional(marked),
      reused: optional(count),
      seconds: number,
    }),
  ),
  runs: listOf(fields(RUN_SHAPE)),
  counts: fields({ inputs: count, ok: count, errors: count }),
};
