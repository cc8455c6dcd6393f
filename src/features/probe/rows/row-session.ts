/** A small model that ONNX Runtime runs over blocks of rows, in double precision and on all cores of the CPU. */
import { openMadeModel } from '../../../runtime/made-model.js';
import type { Replica } from '../../../runtime/replica.js';
import { wholePart } from '../../../tensor/tensor-part.js';
import { nameTensor, type NamedTensor, type Tensor } from '../../../tensor/tensor.js';
import type { LabelledBlock } from './labelled-rows.js';

/** Short runs of several sessions alternate: threads that spin after each run would take the cores from the next one. */
const QUIET = { extra: { session: { intra_op: { allow_spinning: '0' } } } };

/** Feeds by name. */
export type Feeds = Readonly<Record<string, Tensor>>;

/** A session. Open one with {@link openRowSession}. */
export class RowSession {
  readonly #replica: Replica;
  readonly #signal: AbortSignal | undefined;

  constructor(replica: Replica, signal: AbortSignal | undefined) {
    this.#replica = replica;
    this.#signal = signal;
  }

  /** Runs the model. Outputs come in the order of `fetches`. The feeds stay with the caller. */
  run(feeds: Feeds, fetches: readonly string[]): Promise<readonly NamedTensor[]> {
    const parts = Object.entries(feeds).map(([name, tensor]) => wholePart(nameTensor(name, tensor)));
    return this.#replica.run(parts, fetches, { signal: this.#signal });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#replica.close();
  }
}

/** Opens a session of a model. */
export async function openRowSession(
  model: Uint8Array<ArrayBuffer>,
  signal: AbortSignal | undefined,
): Promise<RowSession> {
  return new RowSession(await openMadeModel(model, 'cpu', QUIET), signal);
}

/** The rows of a block as a tensor `[rows, elements]`. */
export function rowsTensor({ rows, data }: LabelledBlock): Tensor {
  return { dtype: 'float32', dims: [rows, data.length / rows], data };
}

/** Numbers in double precision as a tensor. */
export function doubles(dims: readonly number[], data: Float64Array): Tensor {
  return { dtype: 'float64', dims, data };
}
