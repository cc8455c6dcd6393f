/** The manifest of a dataset: what was embedded, how, and where it lies. Written last: without it a dataset is unfinished. */
import { readFileSync } from 'node:fs';
import type { Extractor } from '../extract/extractor.js';
import type { ModelIdentity } from '../extract/prune-model.js';
import type { DecoderVersions } from '../image/decode.js';
import type { TransformOptions } from '../image/presets.js';
import type { ResolvedRequest } from '../rewrite/plan.js';
import type { EmbedSetup } from './embed-options.js';
import type { ReductionSummary } from './reduced-images.js';
import type { FeatureRecord, ShardRecord } from './shards.js';

/** What tells a manifest from other files of its name. */
export const DATASET_FORMAT = 'onnx-tapir dataset';

/** `manifest.json` of a dataset. */
export interface Manifest {
  readonly format: typeof DATASET_FORMAT;
  readonly formatVersion: 1;
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  readonly model: ModelIdentity;
  /** The request, name by name, and the tensors it means. */
  readonly request: readonly ResolvedRequest[];
  readonly transform: { readonly preset: string | null } & TransformOptions;
  /** The decoder's are null if no image needed it. */
  readonly versions: Readonly<
    Record<'onnx-tapir' | 'node' | 'onnxruntime', string> & Record<'sharp' | 'libvips', string | null>
  >;
  /** Settings that can change the last bits of a feature. */
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
  readonly counts: { readonly inputs: number; readonly ok: number; readonly errors: number };
  /** By output key. */
  readonly features: Readonly<
    Record<string, FeatureRecord & { readonly folder: string; readonly rows: number }>
  >;
  readonly shards: readonly ShardRecord[];
}

/** Facts of a finished run. */
export interface RunFacts {
  readonly inputs: number;
  readonly rows: number;
  readonly seconds: number;
  readonly folders: ReadonlyMap<string, string>;
  readonly features: ReadonlyMap<string, FeatureRecord>;
  readonly shards: readonly ShardRecord[];
  readonly model: ModelIdentity;
  readonly reduced: ReductionSummary;
  readonly decoder: DecoderVersions | undefined;
}

/** The version of this package. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Describes a run. */
export function createManifest(extractor: Extractor, setup: EmbedSetup, facts: RunFacts): Manifest {
  const { transform, batch, keepDims } = setup;
  const features = [...facts.features].map(([key, record]) => [
    key,
    { folder: `features/${facts.folders.get(key)!}`, rows: facts.rows, ...record },
  ]);
  return {
    format: DATASET_FORMAT,
    formatVersion: 1,
    createdAt: new Date().toISOString(),
    model: facts.model,
    request: extractor.model.plan.resolved,
    transform: { preset: transform.preset, ...transform.options },
    versions: {
      'onnx-tapir': packageVersion(),
      node: process.versions.node,
      onnxruntime: extractor.runtime,
      sharp: facts.decoder?.sharp ?? null,
      libvips: facts.decoder?.libvips ?? null,
    },
    run: {
      device: extractor.device,
      batch,
      batchMode: extractor.model.plan.batch?.mode ?? null,
      keepDims,
      normalize: extractor.imageNormalization ? 'graph' : setup.takesPixels ? 'model' : 'cpu',
      reduced: transform.options.decode === 'fast' ? facts.reduced : null,
      seconds: facts.seconds,
    },
    counts: { inputs: facts.inputs, ok: facts.rows, errors: facts.inputs - facts.rows },
    // Object.fromEntries cannot express the pairs' type.
    features: Object.fromEntries(features) as Manifest['features'],
    shards: facts.shards,
  };
}
