/** The error for datasets that cannot be read. */
import { TapirError, reasonOf } from '../errors.js';

/** Makes the error for a dataset, or for one of its files, that is damaged or not what it should be. */
export function datasetInvalid(path: string, reason: string, cause?: unknown): TapirError<'DATASET_INVALID'> {
  return new TapirError('DATASET_INVALID', `"${path}" cannot be read: ${reason}`, {
    details: { path, reason },
    cause,
  });
}

/** Makes the error for a folder of a dataset that is not there. */
export function datasetMissing(folder: string, cause: unknown): TapirError<'DATASET_INVALID'> {
  const reason = 'there is no such folder';
  return new TapirError('DATASET_INVALID', `"${folder}" is not a dataset: ${reason}; check the path`, {
    details: { path: folder, reason },
    cause,
  });
}

/** Makes the same error from an error that was caught while reading a file. A `TapirError` names its file already: it is kept. */
export function datasetUnreadable(path: string, error: unknown): TapirError {
  if (error instanceof TapirError) return error;
  const isMissing = (error as NodeJS.ErrnoException | null)?.code === 'ENOENT';
  const reason = isMissing ? 'the manifest names it, but it is missing' : reasonOf(error);
  return datasetInvalid(path, reason, error);
}
