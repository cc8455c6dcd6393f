/**
 * Learning rates as functions of the number of finished steps: the closed forms of what torch's schedulers compute from step to
 * step. A run that is resumed needs nothing but that number.
 */
import { checkNumber, checkOneOf, invalidOption, type Options } from '../../base/checks.js';
import {
  checkedBy,
  integer,
  number,
  readOptions,
  unchecked,
  type Field,
  type Fields,
} from '../../base/options.js';
import { between, readOneCycle } from './one-cycle.js';
import type { Optimizer } from './optimizer.js';
import type { NamedSchedule, Rate, Schedule, ScheduleLike } from './schedule-options.js';

type Kind = NamedSchedule['kind'];
type ScheduleOf<Name extends Kind> = Extract<NamedSchedule, { readonly kind: Name }>;

/** What a schedule reader returns for the kinds that change the rate alone. */
type RateFunction = (step: number, baseLr: number) => number;

const READERS: { readonly [Name in Kind]: (given: ScheduleOf<Name>) => Schedule } = {
  step: (given) => rateAlone(readStep(given)),
  'multi-step': (given) => rateAlone(readMultiStep(given)),
  exponential: (given) => rateAlone(readExponential(given)),
  cosine: (given) => rateAlone(readCosine(given)),
  'cosine-restarts': (given) => rateAlone(readCosineRestarts(given)),
  linear: (given) => rateAlone(readLinear(given)),
  constant: (given) => rateAlone(readConstant(given)),
  polynomial: (given) => rateAlone(readPolynomial(given)),
  sequential: readSequential,
  'one-cycle': readOneCycle,
};

const KINDS = Object.keys(READERS) as Kind[];

/**
 * Reads a schedule.
 *
 * @param given - See {@link ScheduleLike}. Left out, the rate is always that of the optimizer.
 * @throws {@link TapirError} `OPTION_INVALID`. A function that returns anything but a finite number from 0 throws it when the rate
 * is asked for.
 */
export function readSchedule(given?: ScheduleLike): Schedule {
  if (given === undefined) return rateAlone((_step, baseLr) => baseLr);
  if (typeof given === 'function') return rateAlone((step) => checkNumber('schedule', given(step), 0));
  if (given === null || typeof given !== 'object' || Array.isArray(given))
    throw invalidOption('schedule', 'a schedule with its kind, or a function from steps to rates', given);
  const kind = checkOneOf('schedule.kind', given.kind, KINDS);
  // The table pairs each kind with its reader.
  return (READERS[kind] as (given: NamedSchedule) => Schedule)(given);
}

/**
 * Checks that an optimizer has the momentum that a schedule changes.
 *
 * @throws {@link TapirError} `OPTION_INVALID`, with what to change.
 */
export function checkMomentum(schedule: Schedule, { hasMomentum, options }: Optimizer): void {
  if (hasMomentum || !schedule.changesMomentum) return;
  const expected = `null for the optimizer "${options.kind}" without momentum`;
  throw invalidOption('schedule.momentum', expected, 'a cycle of momentum');
}

function rateAlone(rate: RateFunction): Schedule {
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

function readStep(given: ScheduleOf<'step'>): RateFunction {
  const { stepSize, gamma } = read(given, { stepSize: steps(), gamma: fromZero(0.1) });
  return (step, baseLr) => baseLr * gamma ** Math.floor(step / stepSize);
}

function readMultiStep(given: ScheduleOf<'multi-step'>): RateFunction {
  const options = read(given, { milestones, gamma: fromZero(0.1) });
  return (step, baseLr) => baseLr * options.gamma ** countUpTo(step, options.milestones);
}

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

function readExponential(given: ScheduleOf<'exponential'>): RateFunction {
  const { gamma } = read(given, { gamma: fromZero() });
  return (step, baseLr) => baseLr * gamma ** step;
}

function readCosine(given: ScheduleOf<'cosine'>): RateFunction {
  const options = read(given, { steps: steps(), minLr: fromZero(0) });
  return (step, baseLr) => between(baseLr, options.minLr, step / options.steps, 'cosine');
}

function readCosineRestarts(given: ScheduleOf<'cosine-restarts'>): RateFunction {
  const options = read(given, { steps: steps(), factor: steps(1), minLr: fromZero(0) });
  const shareAt = (step: number): number => shareOfWave(step, options.steps, options.factor);
  return (step, baseLr) => between(baseLr, options.minLr, shareAt(step), 'cosine');
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

function readLinear(given: ScheduleOf<'linear'>): RateFunction {
  const { startFactor, endFactor, ...line } = read(given, {
    startFactor: checkedBy(checkStart, 1 / 3),
    endFactor: number(0, 1, 1),
    steps: steps(5),
  });
  return (step, baseLr) => baseLr * between(startFactor, endFactor, Math.min(step / line.steps, 1), 'linear');
}

function checkStart(option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= 1) return value;
  throw invalidOption(option, 'a number above 0, at most 1', value);
}

function readConstant(given: ScheduleOf<'constant'>): RateFunction {
  const options = read(given, { factor: number(0, 1, 1 / 3), steps: steps(5) });
  return (step, baseLr) => (step < options.steps ? baseLr * options.factor : baseLr);
}

function readPolynomial(given: ScheduleOf<'polynomial'>): RateFunction {
  const options = read(given, { steps: steps(5), power: fromZero(1) });
  return (step, baseLr) => baseLr * (1 - Math.min(step / options.steps, 1)) ** options.power;
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
