import { describe, expect, it } from 'vitest';
import { openAll } from '../../../src/run/runtime/open-all.js';

describe('openAll', () => {
  it('gives all in their order', async () => {
    const opening = [Promise.resolve(1), Promise.resolve(2)];
    expect(await openAll(opening, () => Promise.reject(new Error('not to be closed')))).toEqual([1, 2]);
  });

  it('closes those that are open when others fail, and throws the first failure in order', async () => {
    const closed: number[] = [];
    const later = new Promise<number>((_, reject) => setTimeout(() => reject(new Error('first')), 5));
    const opening = [Promise.resolve(1), later, Promise.reject(new Error('second')), Promise.resolve(4)];
    const close = (one: number): Promise<number> => Promise.resolve(closed.push(one));
    await expect(openAll(opening, close)).rejects.toThrow('first');
    expect(closed).toEqual([1, 4]);
  });
});
