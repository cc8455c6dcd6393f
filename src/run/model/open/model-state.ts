/** What the package keeps about an opened model, out of users' sight. */
import type { StampedFile } from '../../../base/file-stamp.js';
import type { Graph } from '../../../onnx/graph/graph.js';
import type { ByteSource } from '../../../onnx/file/wire/source.js';
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
