/** The schedules against torch's rates, and what they refuse. */
import { describe, expect, it } from 'vitest';
import { readOptimizer } from '../../../../src/learn/train/optimizers/optimizer.js';
import { checkMomentum, readSchedule } from '../../../../src/learn/train/optimizers/schedule.js';
import type { ScheduleLike } from '../../../../src/learn/train/optimizers/schedule-options.js';
import { schedules } from '../../../support/train-fixtures.js';
import { sharedNote } from '../../../support/fixtures.js';
import { hasTraining, readTraining } from '../../../support/training.js';

/** torch's own sums drift from the closed forms by some units in the last place. */
const TOLERANCE = 1e-12;

function expectRates(actual: readonly number[], expected: readonly number[], tolerance: number): void {
  const size = Math.max(...expected);
  expect(actual).toHaveLength(expected.length);
  for (const [step, rate] of expected.entries())
    expect(Math.abs(actual[step]! - rate), `step ${step}: ${actual[step]}, not ${rate}`).toBeLessThanOrEqual(
      tolerance * (rate === 0 ? size : rate),
    );
}

describe('schedules against torch', () => {
  it.each(schedules.map((one) => [one.name, JSON.stringify(one.options), one] as const))(
    '%s as %s',
    (_name, _options, { options, base, lr, momentum }) => {
      const schedule = readSchedule(options);
      const rates = lr.map((_, step) => schedule.at(step, base));
      expectRates(
        rates.map((rate) => rate.lr),
        lr,
        TOLERANCE,
      );
      expect(schedule.changesMomentum).toBe(momentum !== undefined);
      if (!momentum) return expect(rates.every((rate) => !('momentum' in rate))).toBe(true);
      const momenta = rates.map((rate) => rate.momentum!);
      return expectRates(momenta, momentum, TOLERANCE);
    },
  );
});

/** The options of the shared fixtures in our words; the plateau needs a metric, which is not ours. */
const SHARED: Readonly<Record<string, ScheduleLike>> = {
  step: { kind: 'step', stepSize: 3 },
  multistep: { kind: 'multi-step', milestones: [2, 5, 9], gamma: 0.3 },
  exponential: { kind: 'exponential', gamma: 0.9 },
  cosine: { kind: 'cosine', steps: 10 },
  'cosine-restarts': { kind: 'cosine-restarts', steps: 4, factor: 2, minLr: 0.001 },
  'linear-warmup': { kind: 'linear', startFactor: 0.1, steps: 5 },
  constant: { kind: 'constant', factor: 0.25, steps: 3 },
  polynomial: { kind: 'polynomial', steps: 6, power: 2 },
  'warmup-then-cosine': {
    kind: 'sequential',
    schedules: [
      { kind: 'linear', startFactor: 0.01, steps: 3 },
      { kind: 'cosine', steps: 7 },
    ],
    milestones: [3],
  },
  onecycle: { kind: 'one-cycle', maxLr: 0.1, steps: 10 },
};

interface SharedCase {
  readonly id: string;
  readonly base: number;
  readonly lr: readonly number[];
  readonly momentum?: readonly number[];
}

describe.skipIf(!hasTraining)(`schedules of the shared fixtures${sharedNote}`, () => {
  it('are all the same', () => {
    const { schedules: cases } = readTraining<{ schedules: readonly SharedCase[] }>(
      'optimizers/schedules.json',
    );
    expect(cases.map(({ id }) => id).filter((id) => id !== 'plateau')).toEqual(Object.keys(SHARED));
    for (const { id, base, lr, momentum } of cases.filter((one) => one.id !== 'plateau')) {
      const schedule = readSchedule(SHARED[id]);
      const rates = lr.map((_, step) => schedule.at(step, base));
      // They are written with nine digits.
      expectRates(
        rates.map((rate) => rate.lr),
        lr,
        5e-9,
      );
      if (momentum)
        expectRates(
          rates.map((rate) => rate.momentum!),
          momentum,
          5e-9,
        );
    }
  });
});

describe('readSchedule', () => {
  it("gives the optimizer's rate without a schedule, and a function's own rate", () => {
    expect(readSchedule().at(7, 0.1)).toEqual({ lr: 0.1 });
    expect(readSchedule((step) => 1 / (step + 1)).at(3, 0.1)).toEqual({ lr: 0.25 });
    expect(() => readSchedule(() => NaN).at(0, 0.1)).toThrow(
      /option "schedule" must be a finite number from 0/,
    );
  });

  it('keeps the last rate of a cycle after its end', () => {
    const schedule = readSchedule({ kind: 'one-cycle', maxLr: 1, steps: 10 });
    expect(schedule.at(25, 0)).toEqual(schedule.at(9, 0));
  });

  it.each([0, 0.1, 1])('has finite rates in a cycle that rises for %j of ten steps', (pctStart) => {
    const schedule = readSchedule({ kind: 'one-cycle', maxLr: 1, steps: 10, pctStart });
    const rates = Array.from({ length: 10 }, (_, step) => schedule.at(step, 0).lr);
    expect(rates.every((rate) => rate > 0 && rate <= 1)).toBe(true);
    expect(rates.at(-1)).toBeCloseTo(pctStart === 1 ? 1 : 4e-6, 12);
  });

  it('counts the steps of each part of a sequence from its start', () => {
    const schedule = readSchedule({
      kind: 'sequential',
      schedules: [(step) => 10 + step, (step) => 20 + step, { kind: 'constant', factor: 0.5, steps: 1 }],
      milestones: [2, 3],
    });
    const rates = [0, 1, 2, 3, 4].map((step) => schedule.at(step, 1).lr);
    expect(rates).toEqual([10, 11, 20, 0.5, 1]);
  });

  it.each<[unknown, RegExp]>([
    [{ kind: 'plateau' }, /"schedule.kind" must be one of "step", "multi-step"/],
    ['cosine', /a schedule with its kind, or a function/],
    [{ kind: 'step' }, /"schedule.stepSize" must be an integer from 1/],
    [
      { kind: 'step', stepSize: 2, steps: 3 },
      /the schedule "step" has no option "steps"; did you mean "stepSize"\? It has stepSize, gamma/,
    ],
    [{ kind: 'step', stepSize: 2, gamma: -1 }, /"schedule.gamma" must be a finite number from 0/],
    [{ kind: 'multi-step', milestones: [3, 2] }, /integers from 1 in ascending order/],
    [{ kind: 'multi-step' }, /"schedule.milestones"/],
    [{ kind: 'exponential' }, /"schedule.gamma"/],
    [{ kind: 'cosine', steps: 0 }, /"schedule.steps" must be an integer from 1/],
    [{ kind: 'cosine', steps: 2, minLr: -1 }, /"schedule.minLr"/],
    [{ kind: 'cosine-restarts', steps: 2, factor: 1.5 }, /"schedule.factor" must be an integer from 1/],
    [{ kind: 'linear', startFactor: 0 }, /"schedule.startFactor" must be a number above 0/],
    [{ kind: 'linear', endFactor: 2 }, /"schedule.endFactor" must be a number from 0 to 1/],
    [{ kind: 'constant', factor: -1 }, /"schedule.factor"/],
    [{ kind: 'polynomial', power: NaN }, /"schedule.power"/],
    [{ kind: 'sequential', schedules: [{ kind: 'linear' }], milestones: [1] }, /one more than milestones/],
    [{ kind: 'one-cycle', steps: 5 }, /"schedule.maxLr"/],
    [{ kind: 'one-cycle', maxLr: 1, steps: 5, pctStart: 2 }, /"schedule.pctStart"/],
    [
      { kind: 'one-cycle', maxLr: 1, steps: 5, divFactor: 0 },
      /"schedule.divFactor" must be a finite number above 0/,
    ],
    [{ kind: 'one-cycle', maxLr: 1, steps: 5, annealing: 'cos' }, /"schedule.annealing"/],
    [{ kind: 'one-cycle', maxLr: 1, steps: 5, momentum: { base: 0.8, max: 1 } }, /"schedule.momentum"/],
  ])('refuses %j', (given, message) => {
    const read = (): unknown => readSchedule(given as ScheduleLike);
    expect(read).toThrow(message);
    expect(read).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
  });
});

describe('checkMomentum', () => {
  const cycle = readSchedule({ kind: 'one-cycle', maxLr: 1, steps: 5 });

  it('wants a momentum that the cycle can change', () => {
    expect(() => checkMomentum(cycle, readOptimizer('adagrad'))).toThrow(
      /"schedule.momentum" must be null for the optimizer "adagrad" without momentum/,
    );
    expect(() => checkMomentum(cycle, readOptimizer('sgd'))).toThrow(/"sgd" without momentum/);
    checkMomentum(cycle, readOptimizer('adam'));
    checkMomentum(cycle, readOptimizer({ kind: 'sgd', momentum: 0.9 }));
    const still = readSchedule({ kind: 'one-cycle', maxLr: 1, steps: 5, momentum: null });
    checkMomentum(still, readOptimizer('adagrad'));
  });
});
