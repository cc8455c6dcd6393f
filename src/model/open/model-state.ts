/** What the package keeps about an opened model, out of users' sight, and where its weights are. */
import { TapirError } from '../../base/errors.js';
import type { StampedFile } from '../../base/file-stamp.js';
import type { Graph } from '../../graph/graph.js';
import { findExternalFiles, type ExternalFiles, type ExternalTensor } from '../../onnx/external-data.js';
import type { ByteSource } from '../../onnx/wire/source.js';
import { Internals } from './internals.js';

export interface ModelState {
  readonly graph: Graph;
  /** The folder that locations of external weights are relative to; `undefined` for a model in memory. */
  readonly folder: string | undefined;
  /** `undefined` for a model that is not a file as it stands: one in memory, or one whose parameters were replaced. */
  readonly file: StampedFile | undefined;
  /** The file that is read, also for a model whose parameters were replaced; `undefined` for a model in memory. */
  readonly path: string | undefined;
  /** Runs a step with the source open. Throws `MODEL_CHANGED` if the file is not the one that was indexed. */
  readonly withSource: <Result>(step: (source: ByteSource) => Result | Promise<Result>) => Promise<Result>;
  /** The same for a step that reads a few bytes, at once. */
  readonly readNow: <Result>(step: (source: ByteSource) => Result) => Result;
}

export const EXPECTED_MODEL = 'a path, a file: URL, bytes, or what openModel gives';

/** By the object that users hold. */
export const modelInternals: Internals<object, ModelState> = new Internals('model', EXPECTED_MODEL);

/**
 * Finds the files of external tensors, and checks that they are in the folder of the model.
 *
 * @returns undefined if there are no such tensors.
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE`, also for a model that was opened from bytes.
 */
export function locateWeights(
  { folder }: Pick<ModelState, 'folder'>,
  tensors: readonly ExternalTensor[],
): ExternalFiles | undefined {
  const [first] = tensors;
  if (!first) return undefined;
  if (folder !== undefined) return findExternalFiles(tensors, folder);
  const { name, location } = first;
  const reason = 'the model was opened from bytes, so its folder is unknown';
  throw new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the weights of "${name}" are in "${location}", but ${reason}; open it by path`,
    { details: { location, tensor: name, reason } },
  );
}
