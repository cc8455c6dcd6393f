/** Describes a run as the plain records that a dataset holds. */
import { createHash } from 'node:crypto';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import type { DatasetIdentity } from '../records/dataset-identity.js';
import type { RunRecord } from '../files/manifest.js';
import type { ModelIdentity, TransformRecord } from '../records/run-record.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import { TRANSFORM_PRESETS, type TransformOptions } from '../../photos/images/transform/transform-options.js';
import type { Transform } from '../../photos/images/transform/transform.js';
import type { EmbedSetup } from './embed-options.js';
import { CUT } from './recorded-recipe.js';

/** Describes what all runs into a dataset must have in common. */
export function describeIdentity(
  extractor: Extractor,
  { bytes, sha256 }: Pick<ModelIdentity, 'bytes' | 'sha256'>,
  setup: EmbedSetup,
  { dtype, format }: Pick<DatasetIdentity, 'dtype' | 'format'>,
): DatasetIdentity {
  const { transform, keepDims, checksum } = setup;
  const { limitPixels: _, ...options } = recordOptions(transform.options);
  return {
    model: { bytes, sha256 },
    request: requestOf(extractor, setup).map(({ key, tensor, computed }) => ({ key, tensor, computed })),
    transform: options,
    engine: extractor.engine,
    ...precisionsOf(extractor),
    ...loweringOf(extractor),
    ...describeParts(setup),
    ...describeNames(setup),
    keepDims,
    dtype,
    format,
    checksum,
  };
}

/** Describes the model and the settings of a run for the manifest. */
export function describeRun(extractor: Extractor, setup: EmbedSetup, model: RunRecord['model']): RunRecord {
  const { transform, batch, window, keepDims, feeds } = setup;
  const { plan } = extractor.model;
  const { own } = extractorInternals.of(extractor).model;
  return {
    model,
    request: requestOf(extractor, setup),
    transform: recordTransform(transform),
    engine: extractor.engine,
    binding: extractor.binding,
    engineVersion: extractor.runtime,
    ...precisionsOf(extractor),
    ...(own ? { fromModelFile: own.keys } : {}),
    device: extractor.device,
    batch,
    window,
    batchMode: plan.batch?.mode ?? null,
    ...describeParts(setup),
    keepDims,
    normalize: extractor.imageNormalization ? 'graph' : feeds.takesPixels ? 'model' : 'cpu',
  };
}

/** The outputs; what is cut off their vectors counts as computed after the tensor. */
function requestOf(extractor: Extractor, { dims }: EmbedSetup): RunRecord['request'] {
  const { resolved } = extractor.model.plan;
  if (dims === undefined) return resolved;
  const cut = [`${CUT} ${dims}`];
  return resolved.map((one) => Object.assign({}, one, { computed: one.computed.concat(cut) }));
}

/** What the rows are, if they are parts of images. */
export function describeParts({
  feeds,
  cropRows,
}: EmbedSetup): Pick<DatasetIdentity, 'cropRows' | 'tiles' | 'clips'> {
  const { rows, tiles, clips } = feeds.processor;
  return {
    ...(rows > 1 && cropRows === 'each' ? { cropRows } : {}),
    ...(tiles ? { tiles } : {}),
    ...(clips ? { clips } : {}),
  };
}

/** Left out where they are as usual. */
function describeNames({ source: { name } }: EmbedSetup): Pick<DatasetIdentity, 'name'> {
  if (typeof name === 'object') return { name: `column ${name.column}` };
  return name === 'auto' ? {} : { name };
}

/** The precision, and that of the rest of a model in 8 bits unless it is float32. */
function precisionsOf(extractor: Extractor): Pick<DatasetIdentity, 'precision' | 'floatPrecision'> {
  const { precision, floatPrecision } = extractor;
  const isMixed = precision !== floatPrecision && floatPrecision !== 'float32';
  return { precision, ...(isMixed ? { floatPrecision } : {}) };
}

/** What 8 bits were chosen for on photos: a digest of what was written for that. */
function loweringOf({ model }: Extractor): Pick<DatasetIdentity, 'lowering'> {
  const { lowered, chunks } = prunedInternals.of(model);
  if (lowered?.precision !== 'int8') return {};
  const hash = createHash('sha256');
  for (const chunk of chunks) if (chunk instanceof Uint8Array) hash.update(chunk);
  return { lowering: hash.digest('hex').slice(0, 16) };
}

export function recordTransform({ preset, source, assumed, options }: Transform): TransformRecord {
  return {
    preset,
    ...(assumed ? { assumed } : {}),
    ...(source ? { source } : {}),
    ...recordOptions(options),
  };
}

/** Options that every record has; others are left out where they have their default. */
const ALWAYS: ReadonlySet<string> = new Set([
  'resize',
  'crop',
  'interpolation',
  'mean',
  'std',
  'orientation',
  'decode',
  'limitPixels',
]);

/** The options that every record has, and those that have not their default. */
function recordOptions(options: TransformOptions): Omit<TransformRecord, 'preset' | 'source' | 'assumed'> {
  const defaults: Readonly<Record<string, unknown>> = { ...TRANSFORM_PRESETS.ImageNet1K_V1 };
  const told = Object.entries(options).filter(
    ([name, value]) => ALWAYS.has(name) || value !== defaults[name],
  );
  // The fields that are left out are optional in a record.
  return Object.fromEntries(told) as Omit<TransformRecord, 'preset' | 'source' | 'assumed'>;
}
