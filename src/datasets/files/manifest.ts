/** The manifest of a dataset: what was embedded, how, and where it lies. It is written last: without it, a dataset is unfinished. */
import { packageVersion } from '../../base/package.js';
import type { ResolvedRequest } from '../../onnx/graph/rewrite/plan.js';
import type { DecoderVersions } from '../../photos/images/decode/open-sharp.js';
import type { ClipPlan } from '../../photos/images/transform/clip-options.js';
import type { TilePlan } from '../../photos/images/transform/tile-options.js';
import type { EngineName } from '../../run/runtime/capabilities/capabilities.js';
import { latestWeights } from '../records/dataset-identity.js';
import type { DatasetInputs, InputCounts } from './dataset-inputs.js';
import { FEATURES } from './file-names.js';
import { latestComparison, type Float32Comparison } from '../records/float32-comparison.js';
import type { FeatureFormat } from '../formats/feature-files.js';
import type { JournalRun, JournalShard, ShardFeatures } from './journal.js';
import { sumMarked, type MarkedCounts } from '../records/marked-images.js';
import { summarizeReduced, type ReductionSummary } from '../records/reduced-images.js';
import type { ModelIdentity, TransformRecord, WeightsRecord } from '../records/run-record.js';

/** Tells a manifest from other files of its name. */
export const DATASET_FORMAT = 'onnx-tapir dataset';

/** A finished shard. Paths are relative to the dataset, with `/`. */
export interface ShardRecord {
  /** The number of inputs in its metadata, including those that failed, without those that were removed. */
  readonly inputs: number;
  /** The number of rows in its feature files. */
  readonly rows: number;
  /** The number of those rows that no metadata names, because a later shard holds the same input or its removal. */
  readonly deadRows: number;
  /** The number of the first row, over all shards. */
  readonly firstRow: number;
  readonly metadata: string;
  /** The feature file by output key; empty if no input of the shard could be read. */
  readonly features: Readonly<Record<string, string>>;
}

/** Where the inputs came from. */
export interface SourceRecord {
  readonly kind: string;
  /** The folder or file; null for other sources. */
  readonly location: string | null;
}

/** `manifest.json` of a dataset. */
export interface Manifest {
  readonly format: typeof DATASET_FORMAT;
  readonly formatVersion: 1;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  readonly source: SourceRecord;
  /** Null if the vectors were imported from a table: `tapir import`. */
  readonly model: ModelIdentity | null;
  /** The request, name by name, and the tensors that it was resolved to. Empty without a model. */
  readonly request: readonly ResolvedRequest[];
  /** Null without a model. */
  readonly transform: TransformRecord | null;
  /** Of the engines, the one that ran the model. The versions of sharp and libvips are null if no image needed them. */
  readonly versions: Readonly<
    Record<'onnx-tapir' | 'node', string> &
      Partial<Record<EngineName, string>> &
      Record<keyof DecoderVersions, string | null>
  >;
  /** The latest run, with settings that can change the last bits of a feature. Null without a model. */
  readonly run: LatestRun | null;
  /** All runs that wrote shards, in order. */
  readonly runs: readonly JournalRun[];
  /** The inputs of the whole dataset. */
  readonly counts: InputCounts;
  /** By output key. */
  readonly features: Readonly<Record<string, FeatureRecord>>;
  readonly shards: readonly ShardRecord[];
}

/** The manifest of a dataset that a model has made. */
export interface EmbeddedManifest extends Manifest {
  readonly model: ModelIdentity;
  readonly transform: TransformRecord;
  readonly run: LatestRun;
}

/** The run of a manifest. */
export interface LatestRun {
  readonly device: string;
  /** The library that ran the model: `onnxruntime` or `openvino`. Missing in manifests from before there were two: `onnxruntime`. */
  readonly engine?: string;
  /** How the library was called; the results are the same. Missing in manifests from before there were two ways. */
  readonly binding?: string | null;
  /** The arithmetic: `float32`, `bfloat16`, `float16`, or `int8`, also of a file in 8 bits. Missing in the same manifests: `float32`. */
  readonly precision?: string;
  /** With `int8`, how the engine computes the rest; left out for float32. */
  readonly floatPrecision?: string;
  /** Which of `engine`, `precision` and `dynamicBatch` came from the model's own file, `MODEL.onnx.tapir.json`; left out if none did. */
  readonly fromModelFile?: readonly string[];
  /** What `tapir embed` was told that all runs have in common, under the names of --config; left out by calls in code. */
  readonly options?: Readonly<Record<string, unknown>>;
  readonly batch: number;
  /**
   * Photos that were sorted by shape before batches were cut from them; null where all feeds have one shape, and missing in manifests
   * from before there were others.
   */
  readonly window?: number | null;
  /** The result of making a fixed batch dynamic; null if that was not asked for. */
  readonly batchMode: 'as-exported' | 'dynamic' | 'per-sample' | null;
  readonly keepDims: boolean;
  /** Where each crop of an image has a row. */
  readonly cropRows?: 'each';
  /** How pictures are cut into tiles, where they are. */
  readonly tiles?: TilePlan;
  /** How frames make clips, where each clip has a row. */
  readonly clips?: ClipPlan;
  /** Where pixels are normalized: in the graph after a rewrite, in the original model, or on the CPU. */
  readonly normalize: 'graph' | 'model' | 'cpu';
  /**
   * The first images of the dataset, compared with the same model in float32; of a file in 8 bits, with the same file, its rest in
   * float32. Null where there is nothing to compare, and missing in manifests from before there were other precisions.
   */
  readonly againstFloat32?: Float32Comparison | null;
  /** The images that `transform.decode: 'fast'` reduced, and how far their pixels are from the exact ones; null with `'exact'`. */
  readonly reduced: ReductionSummary | null;
  /**
   * Photos whose pixels depend on `orientation` and `alpha` of the transform, in all shards. Missing in manifests that were written
   * before they were counted.
   */
  readonly marked?: MarkedCounts;
  /** Rows of all shards that were copied from other datasets (`reuse`); left out for none. */
  readonly reused?: number;
  /**
   * Files of the source that look like images and are not read, by extension, and links that were left out. Missing in manifests that were written before they
   * were counted.
   */
  readonly unreadFiles?: Readonly<Record<string, number>>;
  readonly seconds: number;
}

/** The features of an output. */
export interface FeatureRecord extends Omit<ShardFeatures, 'path'> {
  readonly format: FeatureFormat;
  /** The folder of its files. After a merge it is `parts`: the shards name each file. */
  readonly folder: string;
  /** The number of rows of all its files. */
  readonly rows: number;
}

/** The model and the settings of a run, for the manifest. */
export interface RunRecord
  extends
    Pick<Manifest, 'request'>,
    Omit<LatestRun, 'againstFloat32' | 'reduced' | 'marked' | 'reused' | 'unreadFiles' | 'seconds'> {
  readonly model: Omit<ModelIdentity, 'weights'>;
  readonly transform: TransformRecord;
  readonly engine: string;
  readonly engineVersion: string;
}

/** The state of a dataset after a run. */
export interface DatasetState {
  readonly seconds: number;
  readonly source: SourceRecord;
  readonly unreadFiles: Readonly<Record<string, number>>;
  readonly format: FeatureFormat;
  /** The folder of each output, by key. */
  readonly folders: ReadonlyMap<string, string>;
  readonly shards: readonly JournalShard[];
  readonly runs: readonly JournalRun[];
  readonly inputs: DatasetInputs;
}

export function encodeManifest(manifest: Manifest): Uint8Array {
  return Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
}

/** Returns the number of rows of a dataset, including those that no metadata names. */
export function rowsOf({ shards }: Pick<Manifest, 'shards'>): number {
  const last = shards.at(-1);
  return last ? last.firstRow + last.rows : 0;
}

/** Describes a dataset after a run. */
export function createManifest(run: RunRecord, state: DatasetState): EmbeddedManifest {
  const { request, transform } = run;
  const made = { model: describeModel(run, state.runs), request, transform, run: describeLatest(run, state) };
  return { ...describeDataset(made, state, { [run.engine]: run.engineVersion }), ...made };
}

/** Describes a dataset of vectors from elsewhere. */
export function createImportedManifest(state: Omit<DatasetState, 'seconds' | 'unreadFiles'>): Manifest {
  return describeDataset({ model: null, request: [], transform: null, run: null }, state);
}

function describeDataset(
  { model, request, transform, run }: Pick<Manifest, 'model' | 'request' | 'transform' | 'run'>,
  state: Omit<DatasetState, 'seconds' | 'unreadFiles'>,
  engine: Partial<Record<string, string>> = {},
): Manifest {
  const { source, shards, runs, inputs } = state;
  return {
    format: DATASET_FORMAT,
    formatVersion: 1,
    createdAt: new Date().toISOString(),
    source,
    model,
    request,
    transform,
    versions: {
      'onnx-tapir': packageVersion(),
      node: process.versions.node,
      ...engine,
      ...decoderOf(shards),
    },
    run,
    runs,
    counts: inputs.counts,
    features: recordFeatures(state),
    shards: shards.map((shard) => recordShard(shard, inputs)),
  };
}

function describeModel({ model }: RunRecord, runs: readonly JournalRun[]): ModelIdentity {
  const weights = latestWeights(runs);
  return { ...model, ...(weights && { weights: weights.map(withoutStamp) }) };
}

function describeLatest(run: RunRecord, { shards, unreadFiles, seconds }: DatasetState): LatestRun {
  const { model: _, request: _request, transform, engineVersion: _version, ...settings } = run;
  const isFast = transform.decode === 'fast';
  const reused = shards.reduce((sum, shard) => sum + (shard.reused ?? 0), 0);
  return {
    ...settings,
    againstFloat32: latestComparison(shards) ?? null,
    reduced: isFast ? summarizeReduced(shards.map(({ reduced }) => reduced)) : null,
    marked: sumMarked(shards.map(({ marked }) => marked)),
    ...(reused > 0 && { reused }),
    unreadFiles,
    seconds,
  };
}

/** Returns the decoder of the latest shard that needed it. A run that decodes nothing must not forget it. */
export function decoderOf(
  shards: readonly JournalShard[],
): Pick<Manifest['versions'], keyof DecoderVersions> {
  return shards.findLast((shard) => shard.decoder)?.decoder ?? { sharp: null, libvips: null };
}

function withoutStamp({ path, bytes, sha256 }: WeightsRecord): WeightsRecord {
  return { path, bytes, sha256 };
}

function recordFeatures({
  shards,
  folders,
  format,
}: Pick<DatasetState, 'shards' | 'folders' | 'format'>): Record<string, FeatureRecord> {
  const rows = shards.reduce((sum, shard) => sum + shard.rows, 0);
  const known = new Map(shards.flatMap(({ features }) => Object.entries(features)));
  // In the order of the request.
  return Object.fromEntries(
    [...folders].flatMap(([key, folder]) => {
      const feature = known.get(key);
      if (!feature) return [];
      const { dtype, dims } = feature;
      return [[key, { folder: `${FEATURES}/${folder}`, format, rows, dtype, dims }]];
    }),
  );
}

function recordShard(shard: JournalShard, inputs: DatasetInputs): ShardRecord {
  const { number, rows, firstRow, metadata } = shard;
  const live = inputs.liveIn(number);
  const features = Object.entries(shard.features).map(([key, { path }]) => [key, path] as const);
  const files = { metadata, features: Object.fromEntries(features) };
  return { inputs: live.inputs, rows, deadRows: rows - live.rows, firstRow, ...files };
}
