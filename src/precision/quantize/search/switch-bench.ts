/** Runs samples with any choice of units in 8 bits, in one session. */
import type { Rounding } from '../../../graph/quantize/with-qdq.js';
import type { SwitchedRewrite } from '../../../graph/quantize/with-qdq-switches.js';
import type { Replica } from '../../../runtime/replica.js';
import { wholePart } from '../../../tensor/tensor-part.js';
import type { NamedTensor } from '../../../tensor/tensor.js';
import { appendRows, rowsOf, type Sample, type Vectors } from './photo-rows.js';

/** A session with switches. */
export class SwitchBench {
  readonly #replica: Replica;
  readonly #switched: SwitchedRewrite;
  readonly #units: number;
  readonly #fetches: readonly string[];
  readonly #signal: AbortSignal | undefined;
  #levels: readonly NamedTensor[] = [];

  constructor(replica: Replica, switched: SwitchedRewrite, units: number, signal: AbortSignal | undefined) {
    this.#replica = replica;
    this.#switched = switched;
    this.#units = units;
    this.#signal = signal;
    this.#fetches = [...new Set(switched.rewrite.outputs.map(({ tensor }) => tensor))];
  }

  /** Sets the levels of the tensors, in their order. */
  setLevels(roundings: readonly Rounding[]): void {
    const dims = [roundings.length];
    // Signed levels are unsigned ones with 128 for zero.
    const zeros = Uint8Array.from(roundings, ({ zero, isSigned }) => (isSigned ? 128 : zero));
    this.#levels = [
      {
        name: this.#switched.scales,
        dtype: 'float32',
        dims,
        data: Float32Array.from(roundings, ({ scale }) => scale),
      },
      { name: this.#switched.zeros, dtype: 'uint8', dims, data: zeros },
    ];
  }

  /** The vectors of samples with the chosen units in 8 bits. */
  async run(samples: readonly Sample[], chosen: ReadonlySet<number>): Promise<Vectors> {
    const data = Uint8Array.from({ length: this.#units }, (_, unit) => (chosen.has(unit) ? 1 : 0));
    const switches: NamedTensor = { name: this.#switched.switches, dtype: 'bool', dims: [this.#units], data };
    const all: Float32Array[][] = [];
    for (const sample of samples) {
      const feeds = [...sample, switches, ...this.#levels].map(wholePart);
      // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
      appendRows(all, rowsOf(await this.#replica.run(feeds, this.#fetches, { signal: this.#signal })));
    }
    return all;
  }
}
