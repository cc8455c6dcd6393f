/** The model and the transform of a dataset, as its manifest records them. */
import type { Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import type { Dataset } from '../files/dataset.js';
import { datasetInvalid } from '../../base/files/dataset-invalid.js';
import type { TransformOptions } from '../../photos/images/transform/transform-options.js';
import { withoutOrigin } from '../../photos/images/transform/transform.js';
import { checkIdentity } from '../../run/model/prune/identify-model.js';
import { openModel, type OnnxModel } from '../../run/model/open/open-model.js';

/** What a dataset was made with. */
export interface RecordedModel {
  /** Name of the model file. */
  readonly file: string;
  readonly sha256: string;
  readonly transform: Options<TransformOptions>;
}

/** Reads the record. Throws `DATASET_INVALID` if the manifest does not say, as that of an imported table. */
export function readRecordedModel({ folder, manifest }: Dataset): RecordedModel {
  // Opening the dataset has checked only what reading features needs.
  const { model, transform } = manifest as Partial<Dataset['manifest']>;
  if (model === null)
    throw new TapirError(
      'DATASET_INVALID',
      `"${folder}" was imported from a table: its model is unknown, and this needs it. Search by --path, --vector or --text-model, or embed the photos with tapir embed`,
      { details: { path: folder, reason: 'its model is unknown' } },
    );
  const isRecorded = typeof model?.file === 'string' && typeof model.sha256 === 'string';
  if (!isRecorded || transform === null || typeof transform !== 'object')
    throw datasetInvalid(folder, 'its manifest does not say with which model and transform it was made');
  // createTransform checks it.
  return { file: model.file, sha256: model.sha256, transform: withoutOrigin(transform) };
}

/** A note where the pixels of a dataset were assumed; else nothing. */
export function noteAssumed({ manifest }: Dataset): string[] {
  // Opening the dataset has checked only what reading features needs.
  const { transform } = manifest as Partial<Dataset['manifest']>;
  if (transform?.assumed !== true) return [];
  return [
    `the preprocessing of this dataset was assumed (${transform.preset ?? 'options'}): no configuration lay beside its model`,
  ];
}

/**
 * Opens the model of a dataset.
 *
 * @param given - Its path; or the model itself, which is then only compared.
 * @throws {@link TapirError} `CHECKSUM_MISMATCH` for another model; those of {@link openModel}.
 */
export async function openRecordedModel(
  recorded: RecordedModel,
  given: string | OnnxModel,
): Promise<OnnxModel> {
  const model = typeof given === 'string' ? await openModel(given) : given;
  await checkIdentity(model, recorded, 'the model of the dataset');
  return model;
}
