/**
 * Learning rates as functions of the number of finished steps: the closed forms of what torch's schedulers compute from step to
 * step. A run that is resumed needs nothing but that number.
 */
import { checkNumber, checkOneOf, invalidOption, withDefaults, type Options } from '../../../base/checks.js';
import {
  checkedBy,
  integer,
  number,
  oneOf,
  positive,
  readOptions,
  unchecked,
  type Field,
  type Fields,
} from '../../../base/options.js';
import type { Optimizer } from './optimizer.js';
import type { NamedSchedule, Rate, Schedule, ScheduleLike } from './schedule-options.js';

type Kind = NamedSchedule['kind'];
type ScheduleOf<Name extends Kind> = Extract<NamedSchedule, { readonly kind: Name }>;

const READERS: { readonly [Name in Kind]: (given: ScheduleOf<Name>) => Schedule } = {
  step(given) {
    const { stepSize, gamma } = read(given, { stepSize: steps(), gamma: fromZero(0.1) });
    return rateAlone((step, baseLr) => baseLr * gamma ** Math.floor(step / stepSize));
  },
  'multi-step'(given) {
    const options = read(given, { milestones, gamma: fromZero(0.1) });
    return rateAlone((step, baseLr) => baseLr * options.gamma ** countUpTo(step, options.milestones));
  },
  exponential(given) {
    const { gamma } = read(given, { gamma: fromZero() });
    return rateAlone((step, baseLr) => baseLr * gamma ** step);
  },
  cosine(given) {
    const options = read(given, { steps: steps(), minLr: fromZero(0) });
    return rateAlone((step, baseLr) => between(baseLr, options.minLr, step / options.steps, 'cosine'));
  },
  'cosine-restarts'(given) {
    const options = read(given, { steps: steps(), factor: steps(1), minLr: fromZero(0) });
    const shareAt = (step: number): number => shareOfWave(step, options.steps, options.factor);
    return rateAlone((step, baseLr) => between(baseLr, options.minLr, shareAt(step), 'cosine'));
  },
  linear(given) {
    const fields = { startFactor: positive(1 / 3, '', 1), endFactor: number(0, 1, 1), steps: steps(5) };
    const { startFactor, endFactor, ...line } = read(given, fields);
    const factorAt = (step: number): number =>
      between(startFactor, endFactor, Math.min(step / line.steps, 1), 'linear');
    return rateAlone((step, baseLr) => baseLr * factorAt(step));
  },
  constant(given) {
    const options = read(given, { factor: number(0, 1, 1 / 3), steps: steps(5) });
    return rateAlone((step, baseLr) => (step < options.steps ? baseLr * options.factor : baseLr));
  },
  polynomial(given) {
    const options = read(given, { steps: steps(5), power: fromZero(1) });
    return rateAlone((step, baseLr) => baseLr * (1 - Math.min(step / options.steps, 1)) ** options.power);
  },
  sequential: readSequential,
  'one-cycle': readOneCycle,
};

const KINDS = Object.keys(READERS) as Kind[];

/** Reads a schedule. Throws `OPTION_INVALID`; for a function whose result is no finite number from 0, when the rate is asked for. */
export function readSchedule(given?: ScheduleLike): Schedule {
  if (given === undefined) return rateAlone((_step, baseLr) => baseLr);
  if (typeof given === 'function') return rateAlone((step) => checkNumber('schedule', given(step), 0));
  if (given === null || typeof given !== 'object' || Array.isArray(given))
    throw invalidOption('schedule', 'a schedule with its kind, or a function from steps to rates', given);
  const kind = checkOneOf('schedule.kind', given.kind, KINDS);
  // The table pairs each kind with its reader.
  return (READERS[kind] as (given: NamedSchedule) => Schedule)(given);
}

/** Checks that an optimizer has the momentum that a schedule changes. Throws `OPTION_INVALID`, with what to change. */
export function checkMomentum(schedule: Schedule, { hasMomentum, options }: Optimizer): void {
  if (hasMomentum || !schedule.changesMomentum) return;
  const expected = `null for the optimizer "${options.kind}" without momentum`;
  throw invalidOption('schedule.momentum', expected, 'a cycle of momentum');
}

/** A schedule that changes the rate alone. */
function rateAlone(rate: (step: number, baseLr: number) => number): Schedule {
  return { changesMomentum: false, at: (step, baseLr) => ({ lr: rate(step, baseLr) }) };
}

/** Reads the options of a schedule. */
function read<Named extends object>({ kind, ...given }: NamedSchedule, fields: Fields<Named>): Named {
  return readOptions(fields, given as Options<Named>, `the schedule "${kind}"`, 'schedule.');
}

/** A number of steps. */
const steps = (fallback?: number): Field<number> => integer(1, Number.MAX_SAFE_INTEGER, fallback as number);
/** A rate, or a factor of it. */
const fromZero = (fallback?: number): Field<number> => number(0, Infinity, fallback as number);
const milestones = checkedBy(checkMilestones, undefined as never);

function checkMilestones(option: string, value: unknown): readonly number[] {
  const given: readonly unknown[] = Array.isArray(value) ? value : [undefined];
  const isRight = given.every(
    (one, i) => Number.isSafeInteger(one) && (one as number) > (i === 0 ? 0 : (given[i - 1] as number)),
  );
  if (!isRight) throw invalidOption(option, 'integers from 1 in ascending order', value);
  return [...(given as readonly number[])];
}

function countUpTo(step: number, all: readonly number[]): number {
  return all.filter((milestone) => milestone <= step).length;
}

/** How much of the present half wave is over. */
function shareOfWave(step: number, firstLength: number, factor: number): number {
  if (factor === 1) return (step % firstLength) / firstLength;
  let [done, length] = [step, firstLength];
  while (done >= length) {
    done -= length;
    length *= factor;
  }
  return done / length;
}

function readSequential(given: ScheduleOf<'sequential'>): Schedule {
  const parts = read(given, { schedules: unchecked<readonly ScheduleLike[]>([]), milestones });
  const isRight = Array.isArray(parts.schedules) && !parts.schedules.includes(undefined as never);
  if (!isRight || parts.schedules.length !== parts.milestones.length + 1)
    throw invalidOption('schedule.schedules', 'schedules, one more than milestones', parts.schedules);
  const schedules = parts.schedules.map(readSchedule);
  const at = (step: number, baseLr: number): Rate => {
    const place = countUpTo(step, parts.milestones);
    return schedules[place]!.at(step - (parts.milestones[place - 1] ?? 0), baseLr);
  };
  return { changesMomentum: schedules.some(({ changesMomentum }) => changesMomentum), at };
}

const FORMS = ['cosine', 'linear'] as const;
type Form = (typeof FORMS)[number];

type Momentum = { readonly base: number; readonly max: number } | null;

/** The options of the one-cycle schedule (Smith and Topin, 2018), as torch's OneCycleLR computes it with two phases. */
const ONE_CYCLE = {
  maxLr: fromZero(),
  steps: steps(),
  pctStart: number(0, 1, 0.3),
  annealing: oneOf(FORMS, 'cosine'),
  divFactor: checkedBy(checkDivisor, 25),
  finalDivFactor: checkedBy(checkDivisor, 1e4),
  momentum: checkedBy<Momentum>(readMomentum, { base: 0.85, max: 0.95 }),
};

function readOneCycle(given: ScheduleOf<'one-cycle'>): Schedule {
  const options = read(given, ONE_CYCLE);
  const { maxLr, annealing: form, momentum } = options;
  const firstLr = maxLr / options.divFactor;
  const lastLr = firstLr / options.finalDivFactor;
  // The step with the highest rate, counted from 0; not always an integer.
  const top = options.pctStart * options.steps - 1;
  const wave = (step: number, low: number, high: number, end: number): number => {
    if (step <= top) return between(low, high, top > 0 ? step / top : 1, form);
    const last = options.steps - 1;
    const share = (Math.min(step, last) - top) / (last - top);
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
function between(from: number, to: number, share: number, form: Form): number {
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
