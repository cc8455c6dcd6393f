/** How a feature of a dataset was made, as its manifest records it. */
import type { Options } from '../../base/checks.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import type { Pool } from '../../onnx/graph/rewrite/feature-parts.js';
import { PARTS, POOLS, type RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import type { Dataset } from '../files/dataset.js';
import { readRecordedModel, type RecordedModel } from './recorded-model.js';

/** The word before the number of elements that vectors were cut to. */
export const CUT = 'dims';

/** How a feature of a dataset was made. */
export interface Recipe extends RecordedModel {
  /** The requested name. */
  readonly request: string;
  readonly parts: Options<RewriteOptions>;
}

/** Reads from the manifest how a feature was made. Throws `DATASET_INVALID` if the manifest does not say. */
export function readRecipe(dataset: Dataset, key: string): Recipe {
  const model = readRecordedModel(dataset);
  const { request } = dataset.manifest as Partial<Dataset['manifest']>;
  const own = Array.isArray(request) ? request.find((one) => one?.key === key) : undefined;
  if (typeof own?.request !== 'string' || !Array.isArray(own.computed))
    throw datasetInvalid(dataset.folder, `its manifest does not say how "${key}" was made`);
  return { ...model, request: own.request, parts: partsOf(own.computed) };
}

/** The number of elements that the vectors of a dataset were cut to; undefined for whole ones. */
export function readCut({ manifest }: Pick<Dataset, 'manifest'>): number | undefined {
  const { request } = manifest as Partial<Dataset['manifest']>;
  const words = Array.isArray(request) ? request.flatMap((one) => one?.computed ?? []) : [];
  const cut = words.find((word) => word.startsWith(`${CUT} `));
  return cut === undefined ? undefined : Number(cut.slice(CUT.length));
}

/** The parts that were added after the tensor, from the words of the plan. Half precision does not matter here. */
export function partsOf(
  computed: readonly string[],
): Pick<RewriteOptions, 'part' | 'tokensToMap' | 'l2Normalize'> & { readonly pool: Pool } {
  const pool = POOLS.find((word) => computed.includes(`pool ${word}`)) ?? 'none';
  return {
    part: PARTS.find((word) => computed.includes(`part ${word}`)) ?? 'all',
    tokensToMap: computed.includes('tokensToMap'),
    pool,
    l2Normalize: computed.includes('l2Normalize'),
  };
}
