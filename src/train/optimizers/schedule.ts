/**
 * Learning rates as functions of the number of finished steps: the closed forms of what torch's schedulers compute from step to
 * step. A run that is resumed needs nothing but that number.
 */
import { checkInteger, checkOneOf, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import { checkNumber } from './check-number.js';
import { between, readOneCycle } from './one-cycle.js';
import type { Optimizer } from './optimizer.js';
import type { ScheduleLike, NamedSchedule } from './schedule-options.js';
import type { Rate, Schedule } from './rate.js';

type Kind = NamedSchedule['kind'];
type ScheduleOf<Name extends Kind> = Extract<NamedSchedule, { readonly kind: Name }>;

const MOST = Number.MAX_SAFE_INTEGER;

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

/** Lays the options of a schedule over its defaults. A field without default is undefined if it is not given. */
function complete<Fields extends { readonly kind: Kind }>(defaults: Fields, given: object): Fields {
  return withDefaults(defaults, given as Options<Fields>, `the schedule "${defaults.kind}"`);
}

/** A number of steps. */
function checkSteps(value: unknown, option = 'steps'): number {
  return checkInteger(`schedule.${option}`, value, 1, MOST);
}

function readStep(given: ScheduleOf<'step'>): RateFunction {
  const options = complete({ kind: 'step', stepSize: undefined, gamma: 0.1 }, given);
  const stepSize = checkSteps(options.stepSize, 'stepSize');
  const gamma = checkNumber('schedule.gamma', options.gamma, 0);
  return (step, baseLr) => baseLr * gamma ** Math.floor(step / stepSize);
}

function readMultiStep(given: ScheduleOf<'multi-step'>): RateFunction {
  const options = complete({ kind: 'multi-step', milestones: undefined, gamma: 0.1 }, given);
  const milestones = checkMilestones(options.milestones);
  const gamma = checkNumber('schedule.gamma', options.gamma, 0);
  return (step, baseLr) => baseLr * gamma ** countUpTo(step, milestones);
}

function checkMilestones(value: unknown): readonly number[] {
  const given: readonly unknown[] = Array.isArray(value) ? value : [undefined];
  const isRight = given.every(
    (one, i) => Number.isSafeInteger(one) && (one as number) > (i === 0 ? 0 : (given[i - 1] as number)),
  );
  if (!isRight) throw invalidOption('schedule.milestones', 'integers from 1 in ascending order', value);
  return [...(given as readonly number[])];
}

function countUpTo(step: number, milestones: readonly number[]): number {
  return milestones.filter((milestone) => milestone <= step).length;
}

function readExponential(given: ScheduleOf<'exponential'>): RateFunction {
  const options = complete({ kind: 'exponential', gamma: undefined }, given);
  const gamma = checkNumber('schedule.gamma', options.gamma, 0);
  return (step, baseLr) => baseLr * gamma ** step;
}

function readCosine(given: ScheduleOf<'cosine'>): RateFunction {
  const options = complete({ kind: 'cosine', steps: undefined, minLr: 0 }, given);
  const steps = checkSteps(options.steps);
  const minLr = checkNumber('schedule.minLr', options.minLr, 0);
  return (step, baseLr) => between(baseLr, minLr, step / steps, 'cosine');
}

function readCosineRestarts(given: ScheduleOf<'cosine-restarts'>): RateFunction {
  const options = complete({ kind: 'cosine-restarts', steps: undefined, factor: 1, minLr: 0 }, given);
  const steps = checkSteps(options.steps);
  const factor = checkSteps(options.factor, 'factor');
  const minLr = checkNumber('schedule.minLr', options.minLr, 0);
  return (step, baseLr) => between(baseLr, minLr, shareOfWave(step, steps, factor), 'cosine');
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
  const options = complete({ kind: 'linear', startFactor: 1 / 3, endFactor: 1, steps: 5 }, given);
  const { startFactor } = options;
  const endFactor = checkNumber('schedule.endFactor', options.endFactor, 0, 1);
  const steps = checkSteps(options.steps);
  if (!(startFactor > 0 && startFactor <= 1))
    throw invalidOption('schedule.startFactor', 'a number above 0, at most 1', startFactor);
  return (step, baseLr) => baseLr * between(startFactor, endFactor, Math.min(step / steps, 1), 'linear');
}

function readConstant(given: ScheduleOf<'constant'>): RateFunction {
  const options = complete({ kind: 'constant', factor: 1 / 3, steps: 5 }, given);
  const factor = checkNumber('schedule.factor', options.factor, 0, 1);
  const steps = checkSteps(options.steps);
  return (step, baseLr) => (step < steps ? baseLr * factor : baseLr);
}

function readPolynomial(given: ScheduleOf<'polynomial'>): RateFunction {
  const options = complete({ kind: 'polynomial', steps: 5, power: 1 }, given);
  const steps = checkSteps(options.steps);
  const power = checkNumber('schedule.power', options.power, 0);
  return (step, baseLr) => baseLr * (1 - Math.min(step / steps, 1)) ** power;
}

function readSequential(given: ScheduleOf<'sequential'>): Schedule {
  const options = complete({ kind: 'sequential', schedules: undefined, milestones: undefined }, given);
  const milestones = checkMilestones(options.milestones);
  const parts: unknown = options.schedules;
  if (!Array.isArray(parts) || parts.length !== milestones.length + 1 || parts.includes(undefined))
    throw invalidOption('schedule.schedules', 'schedules, one more than milestones', parts);
  const schedules = (parts as readonly ScheduleLike[]).map(readSchedule);
  const at = (step: number, baseLr: number): Rate => {
    const place = countUpTo(step, milestones);
    return schedules[place]!.at(step - (milestones[place - 1] ?? 0), baseLr);
  };
  return { changesMomentum: schedules.some(({ changesMomentum }) => changesMomentum), at };
}
