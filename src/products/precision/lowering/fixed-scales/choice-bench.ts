/** Runs samples with any choice of units in 8 bits: each choice is the model that would be written. */
import { planReads } from '../../graph/quantize/plan-reads.js';
import { withMeanErrors } from '../../graph/quantize/with-mean-errors.js';
import { withQdq, type RoundedLayer } from '../../graph/quantize/with-qdq.js';
import { fetchesOf, type Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import type { SessionHolder } from '../../../../run/model/oracle/session-holder.js';
import type { NamedTensor } from '../../../../onnx/tensor/tensor.js';
import { runSamples, type Sample } from '../run-samples.js';
import type { Bench, Form } from '../search/search-units.js';
import type { StaticSubject } from './static-subject.js';
import { withOutputs } from '../search/calibrate.js';
import { rowsOf, type Vectors } from '../search/photo-rows.js';

/** A choice as a model, and its layers. */
export interface Qdq {
  readonly rewrite: Rewrite;
  readonly layers: readonly RoundedLayer[];
}

/** Opens a session for each choice. */
export class ChoiceBench implements Bench {
  form: Form;
  corrections: ReadonlyMap<number, Float32Array> = new Map();
  readonly #subject: StaticSubject;
  readonly #sessions: SessionHolder;
  readonly #signal: AbortSignal | undefined;

  constructor(subject: StaticSubject, form: Form, sessions: SessionHolder, signal: AbortSignal | undefined) {
    this.#subject = subject;
    this.form = form;
    this.#sessions = sessions;
    this.#signal = signal;
  }

  /** The model of a choice. */
  make(chosen: ReadonlySet<number>): Qdq {
    const { units, levels } = this.form;
    const places = [...chosen].toSorted((a, b) => a - b);
    const layers = places.flatMap((place): RoundedLayer[] => {
      const { rounded } = units[place]!;
      const correction = this.corrections.get(place);
      const bias = rounded?.bias?.map((x, channel) => x - (correction?.[channel] ?? 0));
      return rounded ? [{ ...rounded, bias }] : [];
    });
    const reads = places.flatMap((place) => units[place]!.reads);
    const read = new Set(reads.map(({ tensor }) => tensor));
    const own = new Map([...levels].filter(([tensor]) => read.has(tensor)));
    const { rewrite, moving } = this.#subject;
    const planned = planReads(rewrite, reads, own, moving);
    return { rewrite: withQdq(rewrite, { layers, ...planned }), layers };
  }

  async run(chosen: ReadonlySet<number>, samples: readonly Sample[]): Promise<Vectors[]> {
    const { rewrite } = this.make(chosen);
    const fetches = fetchesOf(rewrite);
    return (await this.#runAll(rewrite, samples, fetches)).map(rowsOf);
  }

  async meanErrors(samples: readonly Sample[]): Promise<ReadonlyMap<number, Float32Array>> {
    const layers = [...this.form.units.entries()].flatMap(([unit, { rounded }]) =>
      rounded?.bias ? [{ unit, rounded }] : [],
    );
    if (layers.length === 0) return new Map();
    const { rewrite } = this.#subject;
    const rounded = layers.map((one) => one.rounded);
    const measured = withMeanErrors(rewrite, rounded, this.form.levels);
    const runs = await this.#runAll(withOutputs(measured.rewrite, measured.errors), samples, measured.errors);
    const errors = new Map<number, Float32Array>();
    for (const [k, one] of layers.entries()) {
      const ofRuns = runs.map((outputs) => outputs[k]!.data as Float32Array);
      const mean = (channel: number): number =>
        ofRuns.reduce((sum, means) => sum + means[channel]!, 0) / ofRuns.length;
      const added = one.rounded.bias!.map((x, channel) => x + mean(channel));
      errors.set(one.unit, added);
    }
    return errors;
  }

  #runAll(
    rewrite: Rewrite,
    samples: readonly Sample[],
    fetches: readonly string[],
  ): Promise<(readonly NamedTensor[])[]> {
    return runSamples(this.#sessions, rewrite, samples, fetches, this.#signal);
  }
}
