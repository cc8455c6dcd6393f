/** What a training tells and keeps about itself. */
import {
  count,
  fields,
  listOf,
  nullable,
  number,
  optional,
  text,
  type Shapes,
} from '../../../base/shapes.js';
import type { TrainFailure } from './training-photos.js';

/** How the model does on rows. */
export interface Score {
  readonly loss: number;
  /** The share of rows whose highest score is at their class, from 0 to 1. */
  readonly accuracy: number;
  readonly rows: number;
}

/** A finished epoch. */
export interface EpochRecord {
  /** From 1. */
  readonly epoch: number;
  /** Over the epoch's batches, each before its step. */
  readonly training: Score;
  /** After the epoch; null if nothing is held out. */
  readonly heldOut: Score | null;
  /** The learning rate of the last step. */
  readonly lr: number;
  /** Seconds of the steps, without evaluation. */
  readonly seconds: number;
}

/** What happens during a training. */
export type TrainEvent =
  /** A sentence for the user: what was replaced or left out, where training goes on. */
  | { readonly kind: 'note' | 'warning'; readonly text: string }
  | {
      readonly kind: 'step';
      /** From 1. */
      readonly epoch: number;
      /** Steps of the epoch so far, and of a whole one. */
      readonly step: number;
      readonly steps: number;
      readonly loss: number;
      readonly lr: number;
      /** Of the epoch so far. */
      readonly imagesPerSecond: number;
    }
  | { readonly kind: 'epoch'; readonly record: EpochRecord; readonly isBest: boolean };

/** Sums over the steps of an epoch. */
export interface EpochSums {
  readonly loss: number;
  readonly correct: number;
  readonly rows: number;
  readonly seconds: number;
  readonly lr: number;
}

export const NO_SUMS: EpochSums = { loss: 0, correct: 0, rows: 0, seconds: 0, lr: 0 };

/** Where a training stands: what a checkpoint keeps beside weights. */
export interface TrainingNotes {
  /** What decides about the weights: a training with other settings is another one. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** The number of epochs that the learning rate was planned for. */
  readonly planned?: number;
  readonly epochs: readonly EpochRecord[];
  /** Batches of the epoch in progress that are done. */
  readonly batches: number;
  readonly sums: EpochSums;
  readonly failures: readonly TrainFailure[];
}

const score = fields({ loss: number, accuracy: number, rows: count });

/** The form of {@link TrainingNotes}. */
export const NOTES_SHAPE: Shapes = {
  settings: fields({}),
  planned: optional(count),
  epochs: listOf(
    fields({ epoch: count, training: score, heldOut: nullable(score), lr: number, seconds: number }),
  ),
  batches: count,
  sums: fields({ loss: number, correct: count, rows: count, seconds: number, lr: number }),
  failures: listOf(fields({ path: text, code: text, message: text })),
};

/** The epoch of highest held-out accuracy, then of lowest held-out loss, then the first; the last one if nothing is held out. */
export function bestEpoch(epochs: readonly EpochRecord[]): EpochRecord | undefined {
  let best: EpochRecord | undefined;
  for (const record of epochs) if (!best || isBetter(record, best)) best = record;
  return best;
}

function isBetter({ heldOut: a }: EpochRecord, { heldOut: b }: EpochRecord): boolean {
  if (!a || !b) return true;
  return a.accuracy === b.accuracy ? a.loss < b.loss : a.accuracy > b.accuracy;
}
