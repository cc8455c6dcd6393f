import { expect, it } from 'vitest';
import { Shelf } from '../../../../src/products/pages/explore/shelf.js';

it('closes all that is open, also after one of the same key failed late', async () => {
  const closed: string[] = [];
  const opened = (name: string) => ({
    close: () => Promise.resolve(void closed.push(name)),
  });
  const shelf = new Shelf<{ close(): Promise<void> }>(1);
  let fail: (error: Error) => void = () => undefined;
  const first = shelf.take('a', () => new Promise((_, reject) => (fail = reject)));
  await shelf.take('b', () => Promise.resolve(opened('b')));
  await shelf.take('a', () => Promise.resolve(opened('a')));
  fail(new Error('late'));
  await expect(first).rejects.toThrow('late');
  await shelf.close();
  expect(closed.toSorted()).toEqual(['a', 'b']);
});

it('opens again what failed to open', async () => {
  const shelf = new Shelf<{ close(): Promise<void> }>(2);
  await expect(shelf.take('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  const item = { close: () => Promise.resolve() };
  expect(await shelf.take('a', () => Promise.resolve(item))).toBe(item);
});
