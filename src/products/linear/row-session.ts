/** A session that computes a {@link RowGraph} over blocks of rows. */
import type { Device } from '../../run/runtime/lanes/device.js';
import type { Tensor } from '../../onnx/tensor/tensor.js';
import { readDevice } from '../../run/runtime/lanes/device.js';
import { LANE_DEFAULTS } from '../../run/runtime/lanes/lane-options.js';
import { readSessionOptions } from '../../run/runtime/lanes/session-options.js';
import { openReplica, type Replica } from '../../run/runtime/replica.js';
import { wholePart } from '../../onnx/tensor/tensor-part.js';
import { nameTensor } from '../../onnx/tensor/tensor.js';
import { encodeRowGraph, type RowGraph } from './row-graph.js';

/** Short runs of several sessions alternate: threads that spin after each run would take the cores from the next one. */
const QUIET = { intra_op: { allow_spinning: '0' } };
/** Constants in files are read where they lie: they are neither computed with when the session opens, nor packed. */
const AS_STORED = {
  graphOptimizationLevel: 'disabled',
  extra: { session: { ...QUIET, disable_prepacking: '1' } },
} as const;

/** Feeds by name. */
export type Feeds = Readonly<Record<string, Tensor>>;

/** Where and how a session runs. */
export interface RowSessionOptions {
  /** @default 'cpu' */
  readonly device?: Device;
  /**
   * Whether threads sleep between runs; for sessions that take turns.
   * @default false
   */
  readonly isQuiet?: boolean;
  /**
   * Folder of the files that hold constants. Their bytes are mapped, not copied, where the device can.
   * @default undefined
   */
  readonly folder?: string | undefined;
  /** Ends the runs when it fires. */
  readonly signal: AbortSignal | undefined;
}

/** A session. Open one with {@link openRowSession}, and dispose of it after use. */
export class RowSession<Returned extends object> implements AsyncDisposable {
  readonly #replica: Replica;
  readonly #fetches: readonly string[];
  readonly #signal: AbortSignal | undefined;

  constructor(replica: Replica, { outputs }: RowGraph<Returned>, signal: AbortSignal | undefined) {
    this.#replica = replica;
    this.#fetches = Object.keys(outputs);
    this.#signal = signal;
  }

  /** Whether it runs on the CPU, whose products are not rounded to TF32. */
  get isOnCpu(): boolean {
    return this.#replica.facts.device.type === 'cpu';
  }

  /** Computes the graph. With `transfer`, the feeds' buffers move into the session. The outputs are in buffers that the caller owns. */
  run(feeds: Feeds, transfer = false): Promise<Returned> {
    return this.#run(feeds, this.#fetches, transfer) as Promise<Returned>;
  }

  /** Computes some of the outputs. */
  runFor<Name extends keyof Returned & string>(
    names: readonly Name[],
    feeds: Feeds,
    signal: AbortSignal | undefined = this.#signal,
  ): Promise<Pick<Returned, Name>> {
    return this.#run(feeds, names, false, signal) as Promise<Pick<Returned, Name>>;
  }

  async #run(
    feeds: Feeds,
    fetches: readonly string[],
    transfer: boolean,
    signal = this.#signal,
  ): Promise<Readonly<Record<string, unknown>>> {
    const parts = Object.entries(feeds).map(([name, tensor]) => wholePart(nameTensor(name, tensor)));
    const outputs = await this.#replica.run(parts, fetches, { signal, transfer });
    // The graph states the types of its outputs.
    return Object.fromEntries(outputs.map(({ data }, i) => [fetches[i]!, data]));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#replica.close();
  }
}

/** Opens a session of a graph. If its lane dies, runs fail. */
export async function openRowSession<Returned extends object>(
  graph: RowGraph<Returned>,
  { device: given = 'cpu', isQuiet = false, folder, signal }: RowSessionOptions,
): Promise<RowSession<Returned>> {
  const device = readDevice('device', given);
  const quiet = isQuiet ? { extra: { session: QUIET } } : {};
  const session = readSessionOptions(folder === undefined ? quiet : AS_STORED);
  const place = { device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'remove' } as const;
  const description = { model: encodeRowGraph(graph), externalFolder: folder, device, session };
  const replica = await openReplica(place, () => Promise.resolve(description));
  return new RowSession(replica, graph, signal);
}

/** Rows of `elements` numbers each as a tensor `[rows, elements]`. */
export function rowsTensor(data: Float32Array | Float64Array, elements: number): Tensor {
  const dims = [data.length / elements, elements];
  return data instanceof Float32Array ? { dtype: 'float32', dims, data } : { dtype: 'float64', dims, data };
}

/** Numbers in double precision as a tensor `[data.length]`. */
export function vectorTensor(data: Float64Array): Tensor {
  return { dtype: 'float64', dims: [data.length], data };
}
