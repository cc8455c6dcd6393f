/** What a binding is: one of the ways to call ONNX Runtime's library. */
import type { ResolvedDevice } from '../lanes/device.js';
import type { Session } from '../lanes/engine.js';
import type { LaneDescription, SessionFacts } from '../lanes/protocol.js';

/** A session as a binding gives it: its errors are those of the library. */
export interface BoundSession extends Pick<Session, 'run' | 'release'> {
  readonly facts: Omit<SessionFacts, 'device' | 'fallback' | 'binding'>;
}

/** A loaded binding. */
export interface Binding {
  /**
   * Opens a model on a device that is prepared.
   *
   * @throws {@link TapirError} `ENGINE_UNSUPPORTED` if this binding cannot run the model although another one may; else Error with the
   * text of the library.
   */
  open(description: LaneDescription, device: ResolvedDevice): Promise<BoundSession>;
}
