import { describe, expect, it } from 'vitest';
import { readSchedule } from '../../../../src/learn/train/optimizers/schedule.js';
import { scheduleOf, type FolderSchedule } from '../../../../src/learn/train/folder/train-folder-options.js';

/** The rate of each step, for a rate of 1. */
function ratesOf(schedule: FolderSchedule, warmup: number, epochs: number, steps: number): number[] {
  const read = readSchedule(scheduleOf({ schedule, warmup, epochs }, steps));
  return Array.from({ length: epochs * steps }, (_, step) => read.at(step, 1).lr);
}

describe('the learning rate of a folder training', () => {
  it('stays', () => expect(new Set(ratesOf('none', 0, 3, 2))).toEqual(new Set([1])));

  it('goes down in half a wave to almost 0', () => {
    const rates = ratesOf('cosine', 0, 5, 2);
    expect(rates[0]).toBe(1);
    expect(rates).toEqual(rates.toSorted((a, b) => b - a));
    expect(rates.at(-1)).toBeCloseTo((1 + Math.cos(0.9 * Math.PI)) / 2, 12);
  });

  it('becomes a tenth after each third', () => {
    const rates = ratesOf('step', 0, 3, 2);
    for (const [i, rate] of [1, 1, 0.1, 0.1, 0.01, 0.01].entries()) expect(rates[i]).toBeCloseTo(rate, 12);
  });

  it.each(['cosine', 'step', 'none'] as const)('warms up before %s', (schedule) => {
    const rates = ratesOf(schedule, 2, 5, 2);
    expect(rates[0]).toBeCloseTo(0.01, 12);
    expect(rates.slice(0, 4)).toEqual(rates.slice(0, 4).toSorted((a, b) => a - b));
    expect(rates[4]).toBeCloseTo(1, 12);
  });
});
