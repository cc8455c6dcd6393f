/** The manifest of a dataset: what was embedded, how, and where it lies. Written last: without it a dataset is unfinished. */
import { packageVersion } from '../base/package.js';
import type { Extractor } from '../extract/extractor.js';
import type { ModelIdentity } from '../model/identify-model.js';
import type { DecoderVersions } from '../image/decode/open-sharp.js';
import type { TransformOptions } from '../image/transform-options.js';
import type { ResolvedRequest } from '../graph/rewrite/plan.js';
import type { EmbedSetup } from '../embed/embed-options.js';
import type { DatasetInputs } from './dataset-inputs.js';
import type { JournalRun, JournalShard, ShardFeatures } from './journal.js';
import { summarizeReduced, type ReductionSummary } from './reduced-images.js';
import type { FeatureFormat } from './formats/feature-writer.js';

/** The manifest's name in a dataset. */
export const MANIFEST_FILE = 'manifest.json';

/** What tells a manifest from other files of its name. */
export const DATASET_FORMAT = 'onnx-tapir dataset';

/** The manifest as it is written. */
export function encodeManifest(manifest: Manifest): Uint8Array {
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

/** A finished shard. Paths are relative to the dataset, with `/`. */
export interface ShardRecord {
  /** Inputs that its metadata holds, those that failed included. */
  readonly inputs: number;
  /** Rows of its feature files. */
  readonly rows: number;
  /** Those of them that belong to inputs which a later shard holds: no metadata names them. */
  readonly deadRows: number;
  /** Row number of the first one, over all shards. */
  readonly firstRow: number;
  readonly metadata: string;
  /** Feature file by output key; none if no input of the shard could be read. */
  readonly features: Readonly<Record<string, string>>;
}

/** Where the inputs came from. */
export interface SourceRecord {
  readonly kind: string;
  /** Folder or file; null for what is neither. */
  readonly location: string | null;
}

/** `manifest.json` of a dataset. */
export interface Manifest {
  readonly format: typeof DATASET_FORMAT;
  readonly formatVersion: 1;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  readonly source: SourceRecord;
  readonly model: ModelIdentity;
  /** The request, name by name, and the tensors it means. */
  readonly request: readonly ResolvedRequest[];
  readonly transform: { readonly preset: string | null } & TransformOptions;
  /** The decoder's are null if no image needed it. */
  readonly versions: Readonly<
    Record<'onnx-tapir' | 'node' | 'onnxruntime', string> & Record<'sharp' | 'libvips', string | null>
  >;
  /** The latest run, with settings that can change the last bits of a feature. */
  readonly run: {
    readonly device: string;
    readonly batch: number;
    /** What became of a fixed batch that was to be made dynamic; null if it was not. */
    readonly batchMode: 'as-exported' | 'dynamic' | 'per-sample' | null;
    readonly keepDims: boolean;
    /** Where pixels became floats: in the graph as rewritten, in the model's own, or on the CPU beside the session. */
    readonly normalize: 'graph' | 'model' | 'cpu';
    /** Images that `transform.decode: 'fast'` has reduced, and how far their pixels are from the exact ones; null if it is exact. */
    readonly reduced: ReductionSummary | null;
    readonly seconds: number;
  };
  /** All runs that wrote shards, in order. */
  readonly runs: readonly JournalRun[];
  /** Inputs of the whole dataset, each counted once. */
  readonly counts: { readonly inputs: number; readonly ok: number; readonly errors: number };
  /** By output key. */
  readonly features: Readonly<Record<string, FeatureRecord>>;
  readonly shards: readonly ShardRecord[];
}

/** The features of an output. */
export interface FeatureRecord extends Omit<ShardFeatures, 'path'> {
  readonly format: FeatureFormat;
  /** Where its files are; of a dataset that was merged, `parts`: shards name each file. */
  readonly folder: string;
  /** Rows of all its files. */
  readonly rows: number;
}

/** Facts of a finished run. */
export interface RunFacts {
  readonly seconds: number;
  readonly source: SourceRecord;
  readonly model: ModelIdentity;
  readonly format: FeatureFormat;
  readonly folders: ReadonlyMap<string, string>;
  readonly shards: readonly JournalShard[];
  readonly runs: readonly JournalRun[];
  readonly inputs: DatasetInputs;
  readonly decoder: DecoderVersions | undefined;
}

/** Describes a dataset after a run. */
export function createManifest(extractor: Extractor, setup: EmbedSetup, facts: RunFacts): Manifest {
  const { transform, batch, keepDims } = setup;
  const { shards, inputs, decoder } = facts;
  return {
    format: DATASET_FORMAT,
    formatVersion: 1,
    createdAt: new Date().toISOString(),
    source: facts.source,
    model: facts.model,
    request: extractor.model.plan.resolved,
    transform: { preset: transform.preset, ...transform.options },
    versions: {
      'onnx-tapir': packageVersion(),
      node: process.versions.node,
      onnxruntime: extractor.runtime,
      sharp: decoder?.sharp ?? null,
      libvips: decoder?.libvips ?? null,
    },
    run: {
      device: extractor.device,
      batch,
      batchMode: extractor.model.plan.batch?.mode ?? null,
      keepDims,
      normalize: extractor.imageNormalization ? 'graph' : setup.takesPixels ? 'model' : 'cpu',
      reduced:
        transform.options.decode === 'fast' ? summarizeReduced(shards.map(({ reduced }) => reduced)) : null,
      seconds: facts.seconds,
    },
    runs: facts.runs,
    counts: inputs.counts,
    features: recordFeatures(facts),
    shards: shards.map((shard) => recordShard(shard, inputs)),
  };
}

function recordFeatures({ shards, folders, format }: RunFacts): Record<string, FeatureRecord> {
  const rows = shards.reduce((sum, shard) => sum + shard.rows, 0);
  const known = new Map(shards.flatMap(({ features }) => Object.entries(features)));
  // In the order of the request.
  return Object.fromEntries(
    [...folders].flatMap(([key, folder]) => {
      const feature = known.get(key);
      if (!feature) return [];
      const { dtype, dims } = feature;
      return [[key, { folder: `features/${folder}`, format, rows, dtype, dims }]];
    }),
  );
}

function recordShard(shard: JournalShard, inputs: DatasetInputs): ShardRecord {
  const { number, rows, firstRow, metadata } = shard;
  const live = inputs.liveIn(number);
  const features = Object.entries(shard.features).map(([key, { path }]) => [key, path] as const);
  return {
    inputs: live.inputs,
    rows,
    deadRows: rows - live.ok,
    firstRow,
    metadata,
    features: Object.fromEntries(features),
  };
}
