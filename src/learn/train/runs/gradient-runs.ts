/** One step's runs: the pieces of a batch, each on its device, and the sums of what they give. */
import { fetchesOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Runner } from '../../../run/runtime/replica.js';
import { wholePart, type FeedPart } from '../../../onnx/tensor/tensor-part.js';
import type { Piece } from '../../../extract/replicas/batch-pieces.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import { closeAll, openOnDevices, runOn, type Place } from '../../../extract/replicas/rewrite-sessions.js';
import type { NormLayer, NormMoments } from '../statistics/norm-layers.js';
import { readTap } from '../statistics/norm-taps.js';
import { SEED, type LossModel, type TrainingGraph } from './training-graphs.js';
import type { TrainedTensor } from './trained-tensors.js';

/** What the pieces of a batch give together. */
export interface BatchGradients {
  /** The sum of the loss's terms. */
  readonly lossSum: number;
  /** The classes of highest score by row and position; undefined for losses without classes. */
  readonly predicted: BigInt64Array | undefined;
  /** The gradients, in the order of the tensors. */
  readonly gradients: readonly Float32Array[];
  /** Reads the moments by which rows were normalised, one after the other as torch updates its statistics; none with fixed ones. */
  readonly readMoments: () => readonly NormMoments[];
}

/** Computes the gradients of batches. */
export interface GradientRuns {
  /** Runs all rows of a batch, in row order. `seed` is one divided by what the sum of terms is divided by. */
  run(pieces: readonly Piece[], seed: number, signal: AbortSignal | undefined): Promise<BatchGradients>;
  close(): Promise<void>;
}

/** Gradients where each piece is normalised on its own, or by fixed statistics: one session on each device. */
export async function openGradientRuns(
  place: Place,
  loss: LossModel,
  graph: TrainingGraph,
  layers: readonly NormLayer[],
): Promise<GradientRuns> {
  const { rewrite, gradients } = graph;
  const replicas = await openOnDevices({ ...place, model: loss.model }, rewrite);
  const fetches = fetchesOf(rewrite);
  const outputs = [...new Set(gradients.map(({ output }) => output))];
  const tensors = gradients.map(({ tensor }) => tensor);
  const feedsOf = pieceFeeds(rewrite, tensors);
  const normed = layers.filter((layer) => graph.taps.has(layer));
  return {
    run: async (pieces, seed, signal) => {
      const scale = floatPart(SEED, [], Float32Array.of(seed));
      const sums = replicas.map(() => new GradientSums(outputs));
      const run = (replica: Runner, piece: Piece): Promise<Outputs> =>
        sums[piece.replica]!.add(replica.run([...feedsOf(piece), scale], fetches, { signal }));
      const results = await runOn(replicas, pieces, run, signal);
      const readMoments = (): NormMoments[] => {
        const ofFirst = results.filter((_, i) => normed.length > 0 && pieces[i]!.replica === 0);
        return ofFirst.map(
          (outputs) => new Map(normed.map((layer) => [layer, readTap(graph, layer, outputs)])),
        );
      };
      const total = addSums(sums);
      return {
        ...readLoss(loss, results),
        // A rank may have no rows.
        gradients: ownArrays(
          gradients.map(({ output, tensor }) => total.get(output) ?? new Float32Array(tensor.values.length)),
        ),
        readMoments,
      };
    },
    close: () => closeAll(replicas),
  };
}

/** The loss of pieces, and their predictions. */
export function readLoss(
  { loss, predicted }: LossModel,
  results: readonly Outputs[],
): Pick<BatchGradients, 'lossSum' | 'predicted'> {
  const of = (outputs: Outputs, name: string): unknown =>
    outputs.find((output) => output.name === name)!.data;
  const lossSum = results.reduce((sum, outputs) => sum + (of(outputs, loss) as Float32Array)[0]!, 0);
  if (predicted === undefined) return { lossSum, predicted: undefined };
  const all = results.flatMap((outputs) => [...(of(outputs, predicted) as BigInt64Array)]);
  return { lossSum, predicted: BigInt64Array.from(all) };
}

/** What a graph is fed for a piece: the inputs that it has, and the present values of tensors. */
export function pieceFeeds(
  { cut, inputs }: Rewrite,
  tensors: readonly TrainedTensor[],
): (piece: Piece) => FeedPart[] {
  const needed = new Set(cut.inputs.map(({ name }) => name));
  const given = new Set(inputs.map(({ name }) => name));
  return ({ feeds }) => [
    ...[...feeds.values()].filter(({ name }) => needed.has(name)),
    ...weightParts(tensors, given),
  ];
}

/** The present values of tensors as feeds. */
export function weightParts(tensors: readonly TrainedTensor[], needed: ReadonlySet<string>): FeedPart[] {
  return tensors
    .filter(({ initializer }) => needed.has(initializer))
    .map(({ initializer, dims, values }) => floatPart(initializer, dims, values));
}

export function floatPart(name: string, dims: readonly number[], data: Float32Array): FeedPart {
  return wholePart({ name, dtype: 'float32', dims, data });
}

/** Tensors that are added up have one gradient: each gets its own array. */
function ownArrays(arrays: readonly Float32Array[]): readonly Float32Array[] {
  const seen = new Set<Float32Array>();
  return arrays.map((array) => {
    const isTaken = seen.has(array);
    seen.add(array);
    return isTaken ? array.slice() : array;
  });
}

/** Adds up the gradients of a device's pieces in their order, as they come. */
class GradientSums {
  readonly #names: ReadonlySet<string>;
  readonly sums = new Map<string, Float32Array>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(names: readonly string[]) {
    this.#names = new Set(names);
  }

  /** Adds what a run gives, after the runs before it. Returns its other outputs. */
  add(run: Promise<Outputs>): Promise<Outputs> {
    const added = Promise.all([run, this.#last]).then(([outputs]) => {
      for (const { name, data } of outputs)
        if (this.#names.has(name)) addTo(this.sums, name, data as Float32Array);
      return outputs.filter(({ name }) => !this.#names.has(name));
    });
    this.#last = added.catch(() => undefined);
    return added;
  }
}

/** The sums of all devices, in their order. */
function addSums(sums: readonly GradientSums[]): ReadonlyMap<string, Float32Array> {
  const total = new Map<string, Float32Array>();
  for (const { sums: own } of sums) for (const [name, values] of own) addTo(total, name, values);
  return total;
}

/** Adds an array to a sum, which may begin with it. */
export function addTo<Key>(sums: Map<Key, Float32Array>, key: Key, values: Float32Array): void {
  const sum = sums.get(key);
  if (!sum) sums.set(key, values);
  else for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
}
