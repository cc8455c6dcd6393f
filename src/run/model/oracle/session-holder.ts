/** Holds one session for questions about a model, on the CPU and without optimisation unless a question asks for it. */
import { TapirError } from '../../../base/errors.js';
import type { Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import { measureExpansion } from '../../../onnx/graph/rewrite/expansion.js';
import type { Cut } from '../../../onnx/graph/rewrite/prune.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { readDevice } from '../../runtime/lanes/device.js';
import { LANE_DEFAULTS } from '../../runtime/lanes/lane-options.js';
import type { LaneDescription } from '../../runtime/lanes/protocol.js';
import { openReplica, type Replica } from '../../runtime/replica.js';
import { readSessionOptions } from '../../runtime/lanes/session-options.js';
import { checkRunnable } from '../open/check-runnable.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeModel } from '../lanes/session-model.js';

/** The form of a model that a session opens. */
export interface SessionForm {
  readonly rewrite: Rewrite;
  /**
   * Names of the outputs: with `keys`, the session opens the bytes of the saved file.
   * @default 'tensors'
   */
  readonly naming?: Naming;
  /** @default 'disabled' */
  readonly graphOptimizationLevel?: 'disabled' | 'all';
  /**
   * Threads of each node. With 0, ONNX Runtime chooses their number.
   * @default 0
   */
  readonly threads?: number;
  /** Time each node; see {@link LaneDescription}. */
  readonly profileTo?: string;
}

/**
 * The most nodes (those of functions at each of their calls) and outputs that a question may open. ONNX Runtime 1.30 takes 0.3 s of CPU to open a chain of 20,000 nodes, 8 s for
 * 200,000, and more than a minute if each of them is an output.
 */
const MOST_NODES = 50_000;

/** Holds at most one session of a model, for one question at a time. The next one replaces it. */
export class SessionHolder {
  readonly model: OnnxModel;
  #held: Replica | undefined;

  constructor(model: OnnxModel) {
    this.model = model;
  }

  /** Opens a session, after the one before has ended. Throws `SESSION_FAILED`, also for more than 50,000 nodes; `DEPENDENCY_MISSING`. */
  async open({
    rewrite,
    naming = 'tensors',
    graphOptimizationLevel = 'disabled',
    threads = 0,
    profileTo,
  }: SessionForm): Promise<Replica> {
    await this.close();
    const device = readDevice('device', { type: 'cpu', threads });
    checkOpenable(rewrite.cut);
    const session = readSessionOptions({ graphOptimizationLevel });
    checkRunnable(rewrite, device);
    const describe = async (): Promise<LaneDescription> => ({
      ...(await describeModel(this.model, rewrite, naming)),
      device,
      session,
      profileTo,
    });
    const place = { device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'remove' } as const;
    this.#held = await openReplica(place, describe);
    return this.#held;
  }

  /** Ends the session, if one is open. */
  async close(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    await held?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Refuses a cut that no session opens for a question. Call it before work that only such a session needs. Throws `SESSION_FAILED`. */
export function checkOpenable(cut: Pick<Cut, 'graph' | 'nodes' | 'outputs'>): void {
  const size = Math.max(measureExpansion(cut).nodes, cut.outputs.length);
  if (size <= MOST_NODES) return;
  const count = (number: number): string => number.toLocaleString('en-US');
  const reason = `${count(size)} nodes or outputs are more than ${count(MOST_NODES)}, and ONNX Runtime takes minutes to look at them`;
  throw new TapirError(
    'SESSION_FAILED',
    `the model is not opened to measure it: ${reason}; cut it first (tapir extract)`,
    { details: { device: 'cpu', reason } },
  );
}
