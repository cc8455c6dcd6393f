/** The one error of everything that reads a dataset. */
import { TapirError, reasonOf } from '../../base/errors.js';

/** The error for a dataset, or a file of it, that is not what it should be. */
export function datasetInvalid(path: string, reason: string, cause?: unknown): TapirError<'DATASET_INVALID'> {
  return new TapirError('DATASET_INVALID', `"${path}" cannot be read as part of a dataset: ${reason}`, {
    details: { path, reason },
    ...(cause === undefined ? {} : { cause }),
  });
}

/** The same, for whatever was thrown while the file was read; errors that name a file already are kept. */
export function datasetUnreadable(path: string, error: unknown): TapirError {
  if (error instanceof TapirError) return error;
  const isMissing = (error as NodeJS.ErrnoException | null)?.code === 'ENOENT';
  return datasetInvalid(
    path,
    isMissing ? 'the manifest names it, but it is missing' : reasonOf(error),
    error,
  );
}
