/** Moments of norms from one pass: each piece of a batch runs on its own, in train mode or under the model's statistics. */
import { mismatch } from '../../../onnx/tensor/tensor.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import { fetchesOf, startRewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { cutToNorms } from '../../../extract/stages/graph/norm-stages.js';
import { withNorms, type NormRewrite } from '../../../onnx/graph/rewrite/norm-statistics.js';
import type { Runner } from '../../../run/runtime/replica.js';
import { RUNS_PER_SESSION } from '../../../run/runtime/lane-pool.js';
import { mapInOrder } from '../../../base/map-in-order.js';
import {
  checkOnePiece,
  readBatches,
  splitBatch,
  type BatchSource,
  type Piece,
} from '../../../extract/replicas/batch-pieces.js';
import { closeAll, openOnDevices, runOn, type Place } from '../../../extract/replicas/rewrite-sessions.js';
import type { NormLayer, NormMoments } from './norm-layers.js';
import { readTap } from './norm-taps.js';

/** How a pass runs. */
export interface OnePass {
  /** Normalise each piece by its own statistics, instead of the model's. */
  readonly isTraining: boolean;
  /** How batches go to devices: split as torch.chunk does; the same, but only the first device's rows are computed; or whole in turn. */
  readonly split: 'chunk' | 'first' | 'whole';
}

/** Runs all batches. Yields the moments of each piece in order. */
export async function* runOnePass(
  place: Place,
  layers: readonly NormLayer[],
  source: BatchSource,
  { isTraining, split }: OnePass,
): AsyncGenerator<NormMoments> {
  const { model, signal } = place;
  const graph = tapAll(place, layers, isTraining);
  const devices = split === 'first' ? place.devices.slice(0, 1) : place.devices;
  const replicas = await openOnDevices({ ...place, devices }, graph.rewrite);
  const needed = graph.rewrite.cut.inputs.map(({ name }) => name);
  const fetches = fetchesOf(graph.rewrite);
  const run = (replica: Runner, { feeds }: Piece) => {
    const fed = needed.map((name) => feeds.get(name)!);
    return replica.run(fed, fetches, { signal });
  };
  try {
    let turn = 0;
    const batches = readBatches(model.inputs, source, signal);
    const most = RUNS_PER_SESSION * (split === 'whole' ? replicas.length : 1);
    const results = mapInOrder(batches, most, async (batch) => {
      const own = turn++ % replicas.length;
      const all =
        split === 'whole'
          ? splitBatch(batch, 1, 'chunk').map(({ range, feeds }) => ({ range, feeds, replica: own }))
          : splitBatch(batch, place.devices.length, place.split);
      if (isTraining) checkOnePiece(batch, all);
      const pieces = split === 'first' ? all.filter(({ replica }) => replica === 0) : all;
      const outputs = await runOn(replicas, pieces, run, signal);
      return outputs.map((output): NormMoments => {
        const moments = new Map(layers.map((layer) => [layer, readTap(graph, layer, output)]));
        if (isTraining) checkCounts(moments);
        return moments;
      });
    });
    for await (const moments of results) yield* moments;
  } finally {
    await closeAll(replicas);
  }
}

function tapAll({ model }: Place, layers: readonly NormLayer[], isTraining: boolean): NormRewrite {
  const { graph } = modelInternals.of(model);
  const from = isTraining ? 'batch' : 'model';
  const uses = layers.map((norm) => ({ norm, from, isTapped: true }) as const);
  return withNorms(startRewrite(cutToNorms(graph, layers), true), uses);
}

/** Refuses what torch refuses. Throws `INPUT_MISMATCH`. */
export function checkCounts(moments: NormMoments): void {
  for (const [{ name }, { count }] of moments)
    if (count === 1)
      throw mismatch(
        'batch',
        `more than one value per channel, as "${name}" normalises by their variance (leave out the last batch, or make it larger)`,
        'one',
      );
}
