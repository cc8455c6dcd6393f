/** The one-cycle schedule (Smith and Topin, 2018), as torch's OneCycleLR computes it with two phases. */
import { checkInteger, checkOneOf, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import { checkNumber } from './check-number.js';
import type { Schedule } from './rate.js';
import type { OneCycleSchedule } from './schedule-options.js';

const FORMS = ['cosine', 'linear'] as const;
type Form = (typeof FORMS)[number];

const DEFAULTS = {
  kind: 'one-cycle',
  maxLr: undefined as number | undefined,
  steps: undefined as number | undefined,
  pctStart: 0.3,
  annealing: 'cosine' as Form,
  divFactor: 25,
  finalDivFactor: 1e4,
  momentum: { base: 0.85, max: 0.95 } as { readonly base: number; readonly max: number } | null,
};

/** Reads the schedule. Throws `OPTION_INVALID`. */
export function readOneCycle(given: OneCycleSchedule): Schedule {
  const options = withDefaults(DEFAULTS, given as Options<typeof DEFAULTS>, 'the schedule "one-cycle"');
  const maxLr = checkNumber('schedule.maxLr', options.maxLr, 0);
  const steps = checkInteger('schedule.steps', options.steps, 1, Number.MAX_SAFE_INTEGER);
  const form = checkOneOf('schedule.annealing', options.annealing, FORMS);
  const firstLr = maxLr / checkDivisor('divFactor', options.divFactor);
  const lastLr = firstLr / checkDivisor('finalDivFactor', options.finalDivFactor);
  const momentum = readMomentum(options.momentum);
  // The step with the highest rate, counted from 0; not always an integer.
  const top = checkNumber('schedule.pctStart', options.pctStart, 0, 1) * steps - 1;
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
  throw invalidOption(`schedule.${option}`, 'a finite number above 0', value);
}

function readMomentum(given: typeof DEFAULTS.momentum): typeof DEFAULTS.momentum {
  if (given === null) return null;
  const { base, max } = withDefaults({ base: 0.85, max: 0.95 }, given, 'schedule.momentum');
  const isRight = [base, max].every((value) => typeof value === 'number' && value >= 0 && value < 1);
  if (!isRight) throw invalidOption('schedule.momentum', 'null, or base and max from 0 and below 1', given);
  return { base, max };
}
