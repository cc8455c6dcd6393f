import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ByteBudget } from '../../../src/photos/feeds/read-item.js';

it('grants bytes in order, up to its limit; a larger request when nothing is held', async () => {
  const budget = new ByteBudget(10);
  const granted: string[] = [];
  const acquire = (name: string, bytes: number): void =>
    void budget.acquire(bytes).then(() => granted.push(name));
  acquire('a', 6);
  acquire('large', 100);
  // Fits, and waits all the same: a large request must not wait forever.
  acquire('b', 1);
  await turn();
  expect(granted).toEqual(['a']);
  budget.release(6);
  await turn();
  expect(granted).toEqual(['a', 'large']);
  budget.release(100);
  await turn();
  expect(granted).toEqual(['a', 'large', 'b']);
  acquire('c', 9);
  acquire('d', 1);
  await turn();
  expect(granted).toEqual(['a', 'large', 'b', 'c']);
});
