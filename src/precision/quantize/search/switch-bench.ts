/** Runs samples with any choice of units in 8 bits, in one session. */
import type { Rounding } from '../../../graph/quantize/with-qdq.js';
import type { SwitchedRewrite } from '../../../graph/quantize/with-qdq-switches.js';
import type { Replica } from '../../../runtime/replica.js';
import { wholePart } from '../../../tensor/tensor-part.js';
import { elementCount, type NamedTensor } from '../../../tensor/tensor.js';
import { appendRows, rowsOf, type Sample, type Vectors } from './photo-rows.js';

/** A session with switches. */
export class SwitchBench {
  readonly #replica: Replica;
  readonly #switched: SwitchedRewrite;
  readonly #units: number;
  readonly #fetches: readonly string[];
  readonly #signal: AbortSignal | undefined;
  #levels: readonly NamedTensor[] = [];
  #corrections: Float32Array<ArrayBuffer>;

  /** @param fetches - The tensors whose rows are the vectors. */
  constructor(
    replica: Replica,
    switched: SwitchedRewrite,
    units: number,
    fetches: readonly string[],
    signal: AbortSignal | undefined,
  ) {
    this.#replica = replica;
    this.#switched = switched;
    this.#units = units;
    this.#signal = signal;
    this.#fetches = fetches;
    const ends = Array.from(switched.places.values(), ({ start, count }) => start + count);
    this.#corrections = new Float32Array(Math.max(0, ...ends));
  }

  /** What is taken from the biases of layers in 8 bits, by unit. */
  get corrections(): ReadonlyMap<number, Float32Array> {
    const { places } = this.#switched;
    return new Map(
      Array.from(places, ([unit, { start, count }]) => [
        unit,
        this.#corrections.subarray(start, start + count),
      ]),
    );
  }

  /** Sets them; without any, biases stay as they are. */
  setCorrections(corrections: ReadonlyMap<number, Float32Array>): void {
    this.#corrections = new Float32Array(this.#corrections.length);
    for (const [unit, values] of corrections)
      this.#corrections.set(values, this.#switched.places.get(unit)!.start);
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

  /** The mean of each channel (axis 1) of tensors over samples, with the chosen units in 8 bits. */
  async channelMeans(
    samples: readonly Sample[],
    chosen: ReadonlySet<number>,
    tensors: readonly string[],
  ): Promise<Float64Array[]> {
    const sums = tensors.map(() => new Float64Array(0));
    for (const sample of samples)
      // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
      for (const [k, { dims, data }] of (await this.#runOne(sample, chosen, tensors)).entries()) {
        const [, channels = 1, ...space] = dims;
        const inner = elementCount(space);
        if (sums[k]!.length === 0) sums[k] = new Float64Array(channels);
        for (let i = 0; i < data.length; i++)
          sums[k]![Math.floor(i / inner) % channels]! +=
            ((data as Float32Array)[i]! * channels) / data.length;
      }
    return sums.map((sum) => sum.map((x) => x / samples.length));
  }

  /** The vectors of samples with the chosen units in 8 bits. */
  async run(samples: readonly Sample[], chosen: ReadonlySet<number>): Promise<Vectors> {
    const all: Float32Array[][] = [];
    // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
    for (const sample of samples) appendRows(all, rowsOf(await this.#runOne(sample, chosen, this.#fetches)));
    return all;
  }

  #runOne(
    sample: Sample,
    chosen: ReadonlySet<number>,
    fetches: readonly string[],
  ): Promise<readonly NamedTensor[]> {
    const data = Uint8Array.from({ length: this.#units }, (_, unit) => (chosen.has(unit) ? 1 : 0));
    const switches: NamedTensor = { name: this.#switched.switches, dtype: 'bool', dims: [this.#units], data };
    // Only layers in 8 bits are corrected.
    const corrected = this.#corrections.slice();
    for (const [unit, { start, count }] of this.#switched.places)
      if (!chosen.has(unit)) corrected.fill(0, start, start + count);
    const corrections: NamedTensor[] =
      corrected.length === 0
        ? []
        : [{ name: this.#switched.corrections, dtype: 'float32', dims: [corrected.length], data: corrected }];
    const feeds = [...sample, switches, ...this.#levels, ...corrections].map(wholePart);
    return this.#replica.run(feeds, fetches, { signal: this.#signal });
  }
}
