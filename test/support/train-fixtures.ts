/** What torch's optimizers and schedulers do with given gradients (test/fixtures/train). */
import { readFileSync } from 'node:fs';
import type { OptimizerLike } from '../../src/learn/train/optimizers/optimizer-options.js';
import type { ScheduleLike } from '../../src/learn/train/optimizers/schedule-options.js';
import { fixturePath } from './fixtures.js';

/** A trajectory: the parameter after each step. `lr` and `momentum` change with a one-cycle schedule. */
export interface OptimizerRun {
  readonly kind: string;
  /** torch's names. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly lr?: readonly number[];
  readonly momentum?: readonly number[];
  readonly after: readonly (readonly number[])[];
}

/** A parameter, its gradients of each step, and what optimizers make of it. */
export interface OptimizerRuns {
  readonly parameter: readonly number[];
  readonly gradients: readonly (readonly number[])[];
  readonly runs: readonly OptimizerRun[];
}

/** The rates of a schedule: `lr[i]` after `i` finished steps. */
export interface ScheduleCase {
  readonly name: string;
  readonly base: number;
  readonly options: ScheduleLike;
  readonly lr: readonly number[];
  readonly momentum?: readonly number[];
}

function readTrain(file: string): unknown {
  return JSON.parse(readFileSync(fixturePath(`train/${file}`), 'utf8'));
}

export const optimizerRuns = readTrain('optimizers.json') as OptimizerRuns;
export const { schedules } = readTrain('schedules.json') as { readonly schedules: readonly ScheduleCase[] };

/** torch's names, and ours. */
const NAMES: Readonly<Record<string, string>> = {
  weight_decay: 'weightDecay',
  lr_decay: 'lrDecay',
  initial_accumulator_value: 'initialAccumulatorValue',
};

/** The optimizer of a run. */
export function givenOf({ kind, options }: OptimizerRun): OptimizerLike {
  const fields = Object.entries(options).map(([name, value]) => [NAMES[name] ?? name, value]);
  return { kind, ...Object.fromEntries(fields) } as OptimizerLike;
}
