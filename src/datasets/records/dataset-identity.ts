/** What all runs that write a dataset must have in common. */
import { shortestValue } from '../../photos/images/transform/transform-options.js';
import { show } from '../../base/checks.js';
import { TapirError, type ErrorDetails } from '../../base/errors.js';
import type { ClipPlan } from '../../photos/images/transform/clip-options.js';
import type { TilePlan } from '../../photos/images/transform/tile-options.js';
import type { RunWeights, TransformRecord, WeightsRecord } from './run-record.js';

/** What every run into a dataset has in common. The external weights must be the same, too; the journal lists them by run. */
export interface DatasetIdentity {
  /** The model file; null for vectors that were imported from a table. */
  readonly model: { readonly bytes: number; readonly sha256: string } | null;
  /** The outputs: for each key, its tensor and what is computed from the tensor. */
  readonly request: readonly {
    readonly key: string;
    readonly tensor: string;
    readonly computed: readonly string[];
  }[];
  /** Without the limit on pixels: raising it changes no image that was embedded. */
  readonly transform: Partial<Omit<TransformRecord, 'preset' | 'source' | 'assumed' | 'limitPixels'>>;
  /** The library that ran the model, and its arithmetic. Datasets that do not record them: see {@link completeIdentity}. */
  readonly engine: string;
  readonly precision: string;
  /** How the engine computes what is not in 8 bits; left out for float32. */
  readonly floatPrecision?: string;
  /** Of a model that was lowered in memory by what photos say: a digest of the result. */
  readonly lowering?: string;
  /** Where each crop of an image has a row. */
  readonly cropRows?: 'each';
  /** Where pictures are cut into tiles. */
  readonly tiles?: TilePlan;
  /** Where each clip of a video has a row. */
  readonly clips?: ClipPlan;
  /** Where names come from, if not from paths and URLs as they are listed. */
  readonly name?: string;
  readonly keepDims: boolean;
  readonly dtype: string;
  readonly format: string;
  readonly checksum: boolean;
}

/** What the rows of a dataset are parts of: undefined for whole images. */
export function partsOf({
  tiles,
  clips,
  cropRows,
}: Pick<DatasetIdentity, 'tiles' | 'clips' | 'cropRows'>): 'tile' | 'clip' | 'crop' | undefined {
  if (tiles) return 'tile';
  if (clips) return 'clip';
  return cropRows && 'crop';
}

/** Completes the identity of a dataset that was written when there was only one engine, with one precision. */
export function completeIdentity(
  recorded: Omit<DatasetIdentity, 'engine' | 'precision'> & Partial<DatasetIdentity>,
): DatasetIdentity {
  return { engine: 'onnxruntime', precision: 'float32', ...recorded };
}

/** A setting that differs, under the name that users know it by. */
export type Difference = ErrorDetails['DATASET_MISMATCH']['differences'][number];

/** Throws `DATASET_MISMATCH` with each difference of a dataset from what a run asks for. */
export function checkSame(path: string, differences: readonly Difference[]): void {
  if (differences.length === 0) return;
  const list = showDifferences(differences, 'there', 'in this run');
  throw new TapirError(
    'DATASET_MISMATCH',
    `"${path}" holds a dataset that was made with other settings: ${list}. Choose another folder, or replace the dataset (option "overwrite")`,
    { details: { path, differences } },
  );
}

/** Words differences for a message. `there` and `here` say where the two values were found. */
export function showDifferences(differences: readonly Difference[], there: string, here: string): string {
  return differences.map((one) => `${one.what} is ${one.there} ${there} and ${one.asked} ${here}`).join('; ');
}

export function compareIdentities(there: DatasetIdentity, asked: DatasetIdentity): Difference[] {
  const before = flatten(there);
  const now = flatten(asked);
  // Without a model, nothing else can be the same.
  const names = (there.model === null) === (asked.model === null) ? undefined : ['the model'];
  return (names ?? [...new Set([...before.keys(), ...now.keys()])])
    .filter((what) => before.get(what) !== now.get(what))
    .filter((what) => !isOutput(what) || (before.has(what) && now.has(what))) // The list of outputs names the others.
    .filter((what) => what !== 'lowering' || before.has(what)) // Older datasets do not record it.
    .filter((what) => what !== 'name' || before.has(what) || now.get(what) !== '"url"') // Their names are whole URLs.
    .map((what) => ({ what, there: before.get(what) ?? 'missing', asked: now.get(what) ?? 'missing' }));
}

/** Returns the external weights of the latest run that recorded them; undefined if no run did. */
export function latestWeights(
  runs: readonly { readonly weights?: readonly RunWeights[] }[],
): readonly RunWeights[] | undefined {
  return runs.findLast(({ weights }) => weights)?.weights;
}

/** Lists the external weights that differ. Without `sha256`, only sizes are compared. */
export function compareWeights(
  there: readonly WeightsRecord[],
  asked: readonly (Omit<WeightsRecord, 'sha256'> & { readonly sha256?: string })[],
): Difference[] {
  return asked.flatMap(({ path, bytes, sha256 }) => {
    const before = there.find((file) => file.path === path);
    if (before?.bytes === bytes && (sha256 === undefined || before.sha256 === sha256)) return [];
    const shown = before ? showContent(before.bytes, before.sha256) : 'missing';
    return [{ what: `the file of weights "${path}"`, there: shown, asked: showContent(bytes, sha256) }];
  });
}

function showContent(bytes: number, sha256: string | undefined): string {
  return sha256 === undefined ? `${bytes} bytes` : `${sha256.slice(0, 16)}… of ${bytes} bytes`;
}

/** Settings as texts that can be compared and shown, by name. */
function flatten({
  model,
  request,
  transform,
  tiles,
  clips,
  ...settings
}: DatasetIdentity): Map<string, string> {
  const outputs = request.map(({ key, tensor, computed }) => {
    const parts = computed.length > 0 ? ` with ${computed.join(', ')}` : '';
    return [`output "${key}"`, `tensor "${tensor}"${parts}`] as const;
  });
  return new Map<string, string>([
    ['the model', model ? showContent(model.bytes, model.sha256) : 'unknown (tapir import)'],
    ['the list of outputs', request.map(({ key }) => `"${key}"`).join(', ')],
    ...outputs,
    ...Object.entries(transform).map(
      ([name, value]) => [`transform.${name}`, show(shortestValue(name, value))] as const,
    ),
    ...Object.entries(tiles ?? {}).map(([name, value]) => [`tiles.${name}`, show(value)] as const),
    ...Object.entries(clips ?? {}).map(([name, value]) => [`clips.${name}`, show(value)] as const),
    ...Object.entries(settings).map(([name, value]) => [name, show(value)] as const),
  ]);
}

function isOutput(what: string): boolean {
  return what.startsWith('output "');
}
