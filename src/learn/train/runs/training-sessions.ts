/** The sessions of a training, opened when they are first needed. */
import { fetchesOf } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Runner } from '../../../run/runtime/replica.js';
import type { Piece } from '../../../extract/replicas/batch-pieces.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import { closeAll, openOnDevices, runOn, type Place } from '../../../extract/replicas/rewrite-sessions.js';
import type { ProcessGroup } from '../ranks/process-group.js';
import type { NormLayer } from '../statistics/norm-layers.js';
import {
  openGradientRuns,
  pieceFeeds,
  readLoss,
  type BatchGradients,
  type GradientRuns,
} from './gradient-runs.js';
import { openSyncedRuns } from './synced-runs.js';
import type { TrainedTensor } from './trained-tensors.js';
import type { TrainerSetup } from './trainer-options.js';
import { evaluationGraph, trainingGraph, type LossModel } from './training-graphs.js';

interface Setup extends Pick<TrainerSetup, 'inputSizes' | 'recompute'> {
  readonly place: Place;
  readonly loss: LossModel;
  /** What is differentiated. */
  readonly parameters: readonly TrainedTensor[];
  /** The statistics that training updates. */
  readonly buffers: readonly TrainedTensor[];
  /** The norms that the statistics belong to, as the graph with the loss has them. */
  readonly layers: readonly NormLayer[];
  /** Whether rows that run apart are normalised together. */
  readonly isSynced: boolean;
  readonly group: ProcessGroup;
}

/** Opens sessions once, and closes them. */
export class TrainingSessions {
  readonly setup: Setup;
  #gradients: Promise<GradientRuns> | undefined;
  #evaluation: Promise<Evaluator> | undefined;

  constructor(setup: Setup) {
    this.setup = setup;
  }

  /** What computes gradients. */
  gradients(): Promise<GradientRuns> {
    return (this.#gradients ??= this.#openGradients());
  }

  async #openGradients(): Promise<GradientRuns> {
    const { place, loss, parameters, layers, isSynced, inputSizes, recompute, group } = this.setup;
    if (isSynced && layers.length > 0)
      return openSyncedRuns(place, loss, layers, parameters, { inputSizes, group });
    const graph = await trainingGraph(loss, parameters, layers, { inputSizes, recompute });
    return openGradientRuns(place, loss, graph, layers);
  }

  /** The loss of pieces, without gradients. */
  async evaluate(
    pieces: readonly Piece[],
    signal: AbortSignal | undefined,
  ): Promise<Pick<BatchGradients, 'lossSum' | 'predicted'>> {
    const { run } = await (this.#evaluation ??= this.#openEvaluation());
    return readLoss(this.setup.loss, await run(pieces, signal));
  }

  async #openEvaluation(): Promise<Evaluator> {
    const { place, loss, parameters, buffers } = this.setup;
    const tensors = [...parameters, ...buffers];
    const rewrite = evaluationGraph(loss, tensors);
    const fetches = fetchesOf(rewrite);
    const feedsOf = pieceFeeds(rewrite, tensors);
    const replicas = await openOnDevices({ ...place, model: loss.model }, rewrite);
    return {
      run: (pieces, signal) => {
        const run = (replica: Runner, piece: Piece): Promise<Outputs> =>
          replica.run(feedsOf(piece), fetches, { signal });
        return runOn(replicas, pieces, run, signal);
      },
      close: () => closeAll(replicas),
    };
  }

  async close(): Promise<void> {
    const opened = [this.#gradients, this.#evaluation];
    await Promise.allSettled(opened.map(async (one) => (await one)?.close()));
  }
}

interface Evaluator {
  readonly run: (pieces: readonly Piece[], signal: AbortSignal | undefined) => Promise<Outputs[]>;
  readonly close: () => Promise<void>;
}
