/** What a lane needs of an engine, the library that runs a graph. Each engine is a module in engines/ that exports these functions. */
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';
import type { SpareBuffer } from '../../../onnx/tensor/tensor-part.js';
import type { LaneDescription, SessionFacts } from './protocol.js';

/** A library that runs graphs. */
export interface Engine {
  /** Loads the native library, once per thread or process. Opening a session loads it too; calling this earlier saves time. */
  loadRuntime(): Promise<unknown>;
  /**
   * Opens a model.
   *
   * @throws {@link TapirError} `SESSION_FAILED` if the engine refuses the model, `DEVICE_UNAVAILABLE` if the device cannot be used,
   * `DEPENDENCY_MISSING` if the native library cannot be loaded.
   */
  openSession(description: LaneDescription): Promise<Session>;
}

/** A model that an engine has opened on a device. */
export interface Session {
  readonly facts: SessionFacts;
  /**
   * Runs the model. As many runs as the facts have streams may overlap.
   *
   * @param signal - Ends the run early, if the engine can.
   * @param room - Memory for outputs, which an engine may leave alone.
   * @returns The fetched outputs, in the order of `fetches`, each in a separate buffer.
   * @throws {@link TapirError} `RUN_FAILED`.
   */
  run(
    feeds: readonly NamedTensor[],
    fetches: readonly string[],
    signal?: AbortSignal,
    room?: SpareBuffer,
  ): Promise<NamedTensor[]>;
  /** Work after opening that may overlap with runs, such as keeping the compiled model for later. */
  finish?(): Promise<void>;
  /** Frees the model's memory. */
  release(): Promise<void>;
}
