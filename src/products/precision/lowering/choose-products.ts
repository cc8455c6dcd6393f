/** Chooses the products of a model that are computed in 8 bits: as many as keep the outputs near those in float32, on samples. */
import { TapirError } from '../../../base/errors.js';
import type { Node } from '../../../onnx/graph/graph.js';
import type { Product } from '../graph/products.js';
import { withInt8, type Int8Matrix } from '../graph/with-int8.js';
import { fetchesOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { cosineOfTensors } from '../../../onnx/tensor/compare-vectors.js';
import { takeRow } from '../../../onnx/tensor/rows.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import type { MeasuredCosine } from './report.js';
import { readSamples, runSamples, type Sample } from './run-samples.js';

/** What is measured, and what is asked for. */
export interface ProductSamples {
  /** Feeds of runs, such as one photo each. */
  readonly samples: Iterable<unknown> | AsyncIterable<unknown>;
  /** The least cosine to float32 of any row of any output. */
  readonly minCosine: number;
  readonly signal: AbortSignal | undefined;
}

/** The products that are computed in 8 bits, and what is known about the others. */
export interface ProductChoice {
  readonly chosen: readonly Product[];
  /** Those that lose too much, with the least cosine when they alone are computed in 8 bits. */
  readonly kept: ReadonlyMap<Node, number>;
  readonly measured: readonly MeasuredCosine[];
}

/** The samples that decide about single products: those that all products together change most. */
const HARDEST = 4;

/**
 * Measures all products together. If that is too far from float32, it measures each product alone on the hardest samples, and keeps those
 * in float32 that lose most per weight: as few as suffice. Throws `PRECISION_TOO_LOW` if none can be in 8 bits; `OPTION_INVALID` without
 * samples.
 */
export async function chooseProducts(
  model: OnnxModel,
  rewrite: Rewrite,
  products: readonly Product[],
  matrices: ReadonlyMap<string, Int8Matrix>,
  { samples, minCosine, signal }: ProductSamples,
): Promise<ProductChoice> {
  await using sessions = new SessionHolder(model);
  const bench = await openBench(sessions, rewrite, products, matrices, samples, signal);
  const none = new Set<number>();
  const all = await bench.measure(none);
  if (leastOf(all) >= minCosine) return { chosen: products, kept: new Map(), measured: bench.summary(all) };
  const hardest = [...all.keys()]
    .toSorted((a, b) => Math.min(...all[a]!) - Math.min(...all[b]!))
    .slice(0, HARDEST);
  const losses: { readonly i: number; readonly loss: number; readonly perWeight: number }[] = [];
  for (const [i, { matrix }] of products.entries()) {
    const others = new Set([...products.keys()].filter((k) => k !== i));
    // oxlint-disable-next-line no-await-in-loop -- one session at a time
    const loss = 1 - leastOf(await bench.measure(others, hardest));
    losses.push({ i, loss, perWeight: loss / (matrix.rows * matrix.columns) });
  }
  const order = losses.toSorted((a, b) => b.perWeight - a.perWeight);
  // The fewest that suffice: losses add up, so more in float32 is nearer.
  let [low, high] = [1, products.length];
  let [best, kept] = [all, none];
  while (low <= high) {
    const count = (low + high) >> 1;
    const exact = new Set(order.slice(0, count).map(({ i }) => i));
    // oxlint-disable-next-line no-await-in-loop -- each measurement decides about the next
    const cosines = await bench.measure(exact);
    if (leastOf(cosines) >= minCosine) [best, kept, high] = [cosines, exact, count - 1];
    else low = count + 1;
  }
  if (kept.size === products.length || kept.size === 0) throw tooLow(bench.summary(all), minCosine);
  return {
    chosen: products.filter((_, i) => !kept.has(i)),
    kept: new Map(order.filter(({ i }) => kept.has(i)).map(({ i, loss }) => [products[i]!.node, 1 - loss])),
    measured: bench.summary(best),
  };
}

/** The cosines of one sample: a number for each output, the least of its rows. */
type Cosines = readonly number[];

/** Runs samples with any choice of products: each choice is the model that would be written. */
interface Bench {
  /** The cosines of samples, of all by default, with the given products in float32 and all others in 8 bits. */
  readonly measure: (exact: ReadonlySet<number>, of?: readonly number[]) => Promise<readonly Cosines[]>;
  readonly summary: (cosines: readonly Cosines[]) => MeasuredCosine[];
}

/** Reads the samples, and runs each in float32. */
async function openBench(
  sessions: SessionHolder,
  rewrite: Rewrite,
  products: readonly Product[],
  matrices: ReadonlyMap<string, Int8Matrix>,
  given: ProductSamples['samples'],
  signal: AbortSignal | undefined,
): Promise<Bench> {
  const fetches = fetchesOf(rewrite);
  const samples = await readSamples(rewrite, given, 1, 'feeds of at least one run');
  const run = (form: Rewrite, some: readonly Sample[]): Promise<(readonly NamedTensor[])[]> =>
    runSamples(sessions, form, some, fetches, signal);
  const truth = await run(rewrite, samples);
  return {
    measure: async (exact, of = [...samples.keys()]) => {
      const chosen = products.filter((_, i) => !exact.has(i));
      const rounded = withInt8(rewrite, chosen, matrices);
      const some = of.map((at) => samples[at]!);
      const runs = await run(rounded, some);
      return runs.map((outputs, i) => outputs.map((tensor, k) => leastRowCosine(tensor, truth[of[i]!]![k]!)));
    },
    summary: (cosines) =>
      rewrite.outputs.map(({ key, tensor }) => {
        const own = cosines.map((sample) => sample[fetches.indexOf(tensor)]!);
        const mean = own.reduce((sum, one) => sum + one, 0) / own.length;
        return { output: key, samples: own.length, least: smallest(own), mean };
      }),
  };
}

function leastOf(cosines: readonly Cosines[]): number {
  return smallest(cosines.flat());
}

/** `Math.min` takes 100,000 arguments or so; tensors have more rows. */
function smallest(values: readonly number[]): number {
  return values.reduce((least, value) => Math.min(least, value), Infinity);
}

/** Rows are along the first axis; a tensor without axes is one row. */
function leastRowCosine(tensor: NamedTensor, exact: NamedTensor): number {
  const rows = tensor.dims[0];
  if (rows === undefined || rows < 2) return cosineOfTensors(tensor, exact);
  return smallest(
    Array.from({ length: rows }, (_, row) => cosineOfTensors(takeRow(tensor, row), takeRow(exact, row))),
  );
}

function tooLow(measured: readonly MeasuredCosine[], minCosine: number): TapirError<'PRECISION_TOO_LOW'> {
  const { output, least: cosine } = measured.reduce((worst, one) => (one.least < worst.least ? one : worst));
  const shown = Math.floor(cosine * 1e6) / 1e6;
  return new TapirError(
    'PRECISION_TOO_LOW',
    `output "${output}" in int8 is too far from float32: with all products in 8 bits the least cosine is ${shown}, and no choice of them reaches ${minCosine}; choose precision "float32", or a lower limit (option "minCosine")`,
    { details: { output, cosine, minCosine } },
  );
}
