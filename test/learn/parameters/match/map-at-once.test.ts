import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { mapAtOnce } from '../../../../src/learn/parameters/match/map-at-once.js';

describe('mapAtOnce', () => {
  it('gives results in order, and runs no more steps at a time than it may', async () => {
    let open = 0;
    let most = 0;
    const results = await mapAtOnce([5, 1, 4, 1, 3], 2, async (turns) => {
      most = Math.max(most, ++open);
      for (let i = 0; i < turns; i++) await nextTurn();
      open--;
      return turns * 10;
    });
    expect(results).toEqual([50, 10, 40, 10, 30]);
    expect(most).toBe(2);
    expect(await mapAtOnce([], 4, () => Promise.reject(new Error('never')))).toEqual([]);
  });

  it('starts no step after an error', async () => {
    const started: number[] = [];
    const running = mapAtOnce([0, 1, 2, 3, 4], 2, async (item) => {
      started.push(item);
      await nextTurn();
      if (item === 1) throw new Error('one');
    });
    await expect(running).rejects.toThrow('one');
    for (let i = 0; i < 9; i++) await nextTurn();
    expect(started.length).toBeLessThan(4);
  });
});
