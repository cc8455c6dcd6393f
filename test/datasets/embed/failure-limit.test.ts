import { describe, expect, it } from 'vitest';
import { checkFailures, readFailureLimit } from '../../../src/datasets/embed/failure-limit.js';

const check = (
  limit: number | `${number}%`,
  done: number,
  failed: number,
  isEnd = false,
): string | undefined => {
  try {
    checkFailures(readFailureLimit(limit), { done, failed }, isEnd);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
};

describe('a limit on failures', () => {
  it.each([
    [0, 1, 0, false],
    [3, 50, 3, false],
    ['10%', 99, 99, false],
    ['10%', 100, 10, false],
    ['0%', 5, 0, true],
    ['100%', 5, 5, true],
  ] as const)('%s allows, of %i inputs, %i (at the end: %s)', (limit, done, failed, isEnd) =>
    expect(check(limit, done, failed, isEnd)).toBeUndefined(),
  );

  it.each([
    [0, 1, 1, false],
    [3, 50, 4, false],
    ['10%', 100, 11, false],
    ['10%', 5, 1, true],
    ['0.5%', 1000, 6, false],
  ] as const)('%s does not allow, of %i inputs, %i (at the end: %s)', (limit, done, failed, isEnd) =>
    expect(check(limit, done, failed, isEnd)).toContain(
      `${failed} of ${done} inputs failed, more than the ${limit} allowed`,
    ),
  );

  it('says what is kept, and how to resume', () => {
    expect(check(0, 9, 1)).toContain('run the same command again to resume');
    expect(check(0, 9, 1, true)).toContain('the dataset is written nevertheless');
    expect(readFailureLimit(undefined)).toBeUndefined();
    checkFailures(undefined, { done: 9, failed: 9 }, true);
  });
});
