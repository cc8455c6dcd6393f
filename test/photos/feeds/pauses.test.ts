/** Pauses of a source. */
import { describe, expect, it } from 'vitest';
import { PAUSE, withPauses } from '../../../src/photos/feeds/pauses.js';

describe('withPauses', () => {
  it('tells of a pause while an item waits, and of none otherwise', async () => {
    let goOn: () => void = () => undefined;
    let isReturned = false;
    const waiting = new Set<number>();
    async function* source(): AsyncGenerator<number> {
      try {
        yield 1;
        yield 2;
        await new Promise<void>((resolve) => (goOn = resolve));
        yield 3;
        yield 4;
      } finally {
        isReturned = true;
      }
    }
    const since = (): number | undefined => (waiting.size > 0 ? 0 : undefined);
    const seen: (number | typeof PAUSE)[] = [];
    for await (const item of withPauses(source(), 0, since)) {
      seen.push(item);
      // The second one waits for others, the third one does not.
      if (item === 2) waiting.add(2);
      if (item === PAUSE) {
        waiting.clear();
        goOn();
      }
      if (item === 4) break;
    }
    expect(seen).toEqual([1, 2, PAUSE, 3, 4]);
    expect(isReturned).toBe(true);
  });

  it('passes on what the source throws', async () => {
    async function* source(): AsyncGenerator<number> {
      yield 1;
      throw new Error('broken');
    }
    const items = withPauses(source(), 5, () => performance.now());
    expect((await items.next()).value).toBe(1);
    await expect(items.next()).rejects.toThrow('broken');
  });
});
