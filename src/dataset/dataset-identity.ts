/** What makes a dataset one: what may not differ between the runs that write it. */
import { show } from '../base/checks.js';
import { TapirError, type ErrorDetails } from '../base/errors.js';
import type { Extractor } from '../extract/extractor.js';
import type { ModelIdentity } from '../model/identify-model.js';
import type { TransformOptions } from '../image/transform-options.js';

/** What every run into a dataset has in common. */
export interface DatasetIdentity {
  /** Of the model file. */
  readonly model: { readonly bytes: number; readonly sha256: string };
  /** What is returned: the tensor of each key, and what is computed behind it. */
  readonly request: readonly {
    readonly key: string;
    readonly tensor: string;
    readonly computed: readonly string[];
  }[];
  /** All of it but the limit on pixels: raising that changes no image that was embedded. */
  readonly transform: Omit<TransformOptions, 'limitPixels'>;
  readonly keepDims: boolean;
  readonly dtype: string;
  readonly format: string;
  readonly checksum: boolean;
}

/** The identity of what a run will write. */
export function identifyDataset(
  extractor: Extractor,
  model: ModelIdentity,
  transform: TransformOptions,
  settings: Pick<DatasetIdentity, 'keepDims' | 'dtype' | 'format' | 'checksum'>,
): DatasetIdentity {
  const { limitPixels: _, ...rest } = transform;
  const { keepDims, dtype, format, checksum } = settings;
  return {
    model: { bytes: model.bytes, sha256: model.sha256 },
    request: extractor.model.plan.resolved.map(({ key, tensor, computed }) => ({ key, tensor, computed })),
    transform: rest,
    keepDims,
    dtype,
    format,
    checksum,
  };
}

/**
 * Compares what a dataset was made with and what is asked for.
 *
 * @throws {@link TapirError} `DATASET_MISMATCH` with each difference.
 */
export function checkIdentity(path: string, there: DatasetIdentity, asked: DatasetIdentity): void {
  const differences = compareIdentities(there, asked);
  if (differences.length === 0) return;
  const list = differences.map((one) => `${one.what} is ${one.there}, asked for is ${one.asked}`).join('; ');
  throw new TapirError(
    'DATASET_MISMATCH',
    `"${path}" holds a dataset made in another way: ${list}; choose another folder, or start over (--overwrite)`,
    { details: { path, differences } },
  );
}

/** What differs, by the name that a user knows it by. */
export function compareIdentities(
  there: DatasetIdentity,
  asked: DatasetIdentity,
): ErrorDetails['DATASET_MISMATCH']['differences'] {
  const before = flatten(there);
  const now = flatten(asked);
  return [...new Set([...before.keys(), ...now.keys()])]
    .filter((what) => before.get(what) !== now.get(what))
    .map((what) => ({ what, there: before.get(what) ?? 'nothing', asked: now.get(what) ?? 'nothing' }));
}

/** Settings by the name that a user knows them by, as texts that can be compared and shown. */
function flatten({ model, request, transform, ...settings }: DatasetIdentity): Map<string, string> {
  const outputs = request.map(({ key, tensor, computed }) => {
    const behind = computed.length > 0 ? `, ${computed.join(', ')}` : '';
    return [`output "${key}"`, `${tensor}${behind}`] as const;
  });
  const keys = request.map(({ key }) => key).join(', ');
  return new Map<string, string>([
    ['model', `${model.sha256.slice(0, 16)}… of ${model.bytes} bytes`],
    ['outputs', keys],
    ...outputs,
    ...Object.entries(transform).map(([name, value]) => [`transform.${name}`, show(value)] as const),
    ...Object.entries(settings).map(([name, value]) => [name, show(value)] as const),
  ]);
}
