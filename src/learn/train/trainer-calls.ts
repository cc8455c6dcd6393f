/** What the calls of a trainer take and give. */
import type { RunInput } from '../../extract/replicas/run-options.js';
import type { Target } from './losses/targets.js';

/** Rows and what they should give. */
export interface TrainBatch {
  /** A tensor, or tensors by input name, as for `extractor.run`. */
  readonly input: RunInput;
  /**
   * Class indices (a list of numbers, or int64 or int32 `[N, …]`), or float32 of the output's dims: class probabilities, numbers from 0 to
   * 1, or values. Which of them is the loss's matter.
   */
  readonly target: Target;
}

/** What stops a step or an evaluation. */
export interface TrainRunOptions {
  /**
   * Rejects with its reason when it fires. The weights are then as before the step.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

/** A finished step. */
export interface StepResult {
  /** Its number, from 1. */
  readonly step: number;
  /** The loss before the step. */
  readonly loss: number;
  readonly rows: number;
  /** Rows (and positions) whose highest score is at the target's class; null for targets that are no classes. */
  readonly correct: number | null;
  /** The learning rate of the step: that of the first group. */
  readonly lr: number;
  /** The length of all gradients together, before they were clipped; null without `clipNorm`. */
  readonly gradientNorm: number | null;
}

/** How a model does on rows. */
export interface Evaluation {
  /** The loss: the mean over batches, weighted as the loss weights its terms. */
  readonly loss: number;
  readonly rows: number;
  /** The share of rows (and positions) whose highest score is at the target's class; null for targets that are no classes. */
  readonly accuracy: number | null;
}

/** Batches to evaluate. */
export type EvaluationSource = TrainBatch | Iterable<TrainBatch> | AsyncIterable<TrainBatch>;
