/** The one-cycle schedule (Smith and Topin, 2018), as torch's OneCycleLR computes it with two phases. */
import { invalidOption, withDefaults } from '../../base/checks.js';
import { checkedBy, integer, number, oneOf, readOptions } from '../../base/options.js';
import type { OneCycleSchedule, Schedule } from './schedule-options.js';

const FORMS = ['cosine', 'linear'] as const;
type Form = (typeof FORMS)[number];

type Momentum = { readonly base: number; readonly max: number } | null;

const FIELDS = {
  maxLr: number(0, Infinity, undefined as never),
  steps: integer(1, Number.MAX_SAFE_INTEGER, undefined as never),
  pctStart: number(0, 1, 0.3),
  annealing: oneOf(FORMS, 'cosine'),
  divFactor: checkedBy(checkDivisor, 25),
  finalDivFactor: checkedBy(checkDivisor, 1e4),
  momentum: checkedBy<Momentum>(readMomentum, { base: 0.85, max: 0.95 }),
};

/** Reads the schedule. Throws `OPTION_INVALID`. */
export function readOneCycle({ kind, ...given }: OneCycleSchedule): Schedule {
  const options = readOptions(FIELDS, given, `the schedule "${kind}"`, 'schedule.');
  const { maxLr, steps, annealing: form, momentum } = options;
  const firstLr = maxLr / options.divFactor;
  const lastLr = firstLr / options.finalDivFactor;
  // The step with the highest rate, counted from 0; not always an integer.
  const top = options.pctStart * steps - 1;
  const wave = (step: number, low: number, high: number, end: number): number => {
    if (step <= top) return between(low, high, top > 0 ? step / top : 1, form);
    const share = (Math.min(step, steps - 1) - top) / (steps - 1 - top);
    return between(high, end, share, form);
  };
  return {
    changesMomentum: momentum !== null,
    at: (step) => ({
      lr: wave(step, firstLr, maxLr, lastLr),
      ...(momentum && { momentum: wave(step, momentum.max, momentum.base, momentum.max) }),
    }),
  };
}

/** A value on the way from one to another: on a line, or on half a wave. */
export function between(from: number, to: number, share: number, form: Form): number {
  if (form === 'linear') return from + (to - from) * share;
  return to + ((from - to) / 2) * (1 + Math.cos(Math.PI * share));
}

function checkDivisor(option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < Infinity) return value;
  throw invalidOption(option, 'a finite number above 0', value);
}

function readMomentum(option: string, given: unknown): Momentum {
  if (given === null) return null;
  const { base, max } = withDefaults({ base: 0.85, max: 0.95 }, given as object, option);
  const isRight = [base, max].every((value) => typeof value === 'number' && value >= 0 && value < 1);
  if (!isRight) throw invalidOption(option, 'null, or base and max from 0 and below 1', given);
  return { base, max };
}
