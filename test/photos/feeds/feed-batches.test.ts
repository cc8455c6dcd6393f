/** Batches are cut by position, memory is bounded, and nothing waits for a slow image but its own batch. */
import { describe, expect, it } from 'vitest';
import type { FeedBatch } from '../../../src/photos/feeds/feed-batches.js';
import { openPhotos } from '../../../src/photos/feeds/open-photos.js';
import { planFeeds } from '../../../src/photos/feeds/plan-feeds.js';
import { createTransform } from '../../../src/photos/feeds/create-transform.js';
import type { SourceItem } from '../../../src/photos/feeds/items/source-item.js';
import { TapirError } from '../../../src/base/errors.js';
import type { DecodeLanes } from '../../../src/photos/images/lanes/decode-lanes.js';
import { untilQuiet } from '../../support/quiet.js';

/** Photos of one pixel, as they are. */
const FEEDS = planFeeds(
  { inputs: [{ name: 'x', dtype: 'uint8', dims: ['n', 1, 1, 3] }], imageNormalization: null },
  createTransform({ resize: { height: 1, width: 1 }, crop: null }),
);
const OPTIONS = { batch: 2, openBatches: 3, refill: 1 };

const pixelsOf = ({ memory }: FeedBatch): number[] => [...memory.place(0), ...memory.place(1)];

/** Threads that are played: each image waits until it is let go. */
function playDecoding(): {
  lanes: DecodeLanes;
  asked: string[];
  settle: (name: string, error?: Error) => void;
} {
  const asked: string[] = [];
  const open = new Map<string, { resolve: (size: object) => void; reject: (error: Error) => void }>();
  const load = (source: string, into: Uint8Array): Promise<object> => {
    asked.push(source);
    return new Promise((resolve, reject) => {
      open.set(source, {
        resolve: (size) => {
          into.fill(source.charCodeAt(0));
          resolve(size);
        },
        reject,
      });
    });
  };
  return {
    lanes: { load } as unknown as DecodeLanes,
    asked,
    settle(name, error) {
      if (error) open.get(name)!.reject(error);
      else open.get(name)!.resolve({ width: 1, height: 1 });
    },
  };
}

const items = (names: string): SourceItem[] => Array.from(names, (name) => ({ path: name, image: name }));

describe('feeds of a source', () => {
  it('opens no more batches than it may, and goes on as they are released', async () => {
    const { lanes, asked, settle } = playDecoding();
    const loader = openPhotos(items('abcdefghij'), FEEDS, lanes, OPTIONS);
    await untilQuiet();
    expect(asked.join('')).toBe('abcdef');
    for (const name of 'abcdef') settle(name);
    const first = await loader.next();
    await untilQuiet();
    expect(asked).toHaveLength(6);
    first!.release();
    await untilQuiet();
    expect(asked.join('')).toBe('abcdefgh');
  });

  it('goes on when so many batches are free as it is told, so that images come several at once', async () => {
    const { lanes, asked, settle } = playDecoding();
    const loader = openPhotos(items('abcdefghijklmnopqrstuvwxyz'), FEEDS, lanes, {
      ...OPTIONS,
      openBatches: 8,
      refill: 2,
    });
    await untilQuiet();
    expect(asked).toHaveLength(16);
    for (const name of 'abcd') settle(name);
    (await loader.next())!.release();
    await untilQuiet();
    expect(asked).toHaveLength(16);
    (await loader.next())!.release();
    await untilQuiet();
    expect(asked).toHaveLength(20);
  });

  it('gives batches in order, each image at its place, whatever is slow', async () => {
    const { lanes, settle } = playDecoding();
    const loader = openPhotos(items('abcde'), FEEDS, lanes, OPTIONS);
    await untilQuiet();
    for (const name of 'edcb') settle(name);
    let isReady = false;
    const first = loader.next().then((batch) => {
      isReady = true;
      return batch;
    });
    await untilQuiet();
    expect(isReady).toBe(false);
    settle('a');
    expect(pixelsOf((await first)!)).toEqual([97, 97, 97, 98, 98, 98]);
    expect((await loader.next())!.items.map(({ path }) => path)).toEqual(['c', 'd']);
    const last = await loader.next();
    expect(last!.items.map(({ path, index }) => [path, index])).toEqual([['e', 4]]);
    expect(await loader.next()).toBeUndefined();
  });

  it('keeps the place of an image that fails, and ends on what is no image’s fault', async () => {
    const { lanes, settle } = playDecoding();
    const loader = openPhotos(items('abcd'), FEEDS, lanes, OPTIONS);
    await untilQuiet();
    const details = { source: 'a', reason: 'it is empty' };
    settle('a', new TapirError('IMAGE_UNREADABLE', 'a is empty', { details }));
    settle('b');
    settle('c');
    settle('d', new Error('a defect'));
    const first = await loader.next();
    expect(first!.items.map(({ error }) => error?.code)).toEqual(['IMAGE_UNREADABLE', undefined]);
    expect(pixelsOf(first!)).toEqual([0, 0, 0, 98, 98, 98]);
    await expect(loader.next()).rejects.toThrow('a defect');
  });

  it('gives what was loaded before the source failed, then the failure', async () => {
    const { lanes, settle } = playDecoding();
    const source = (async function* () {
      yield* items('abc');
      throw new Error('the source broke');
    })();
    const loader = openPhotos(source, FEEDS, lanes, OPTIONS);
    await untilQuiet();
    for (const name of 'abc') settle(name);
    expect((await loader.next())!.items).toHaveLength(2);
    expect((await loader.next())!.items).toHaveLength(1);
    await expect(loader.next()).rejects.toThrow('the source broke');
  });

  it('leaves no failure unhandled in a batch that is never full', async () => {
    const { lanes, settle } = playDecoding();
    const source = (async function* () {
      yield* items('a');
      await new Promise(() => undefined);
    })();
    const unhandled: unknown[] = [];
    const listen = (error: unknown): number => unhandled.push(error);
    process.on('unhandledRejection', listen);
    const loader = openPhotos(source, FEEDS, lanes, OPTIONS);
    await untilQuiet();
    settle('a', new Error('closed'));
    loader.stop();
    await untilQuiet();
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
  });

  it('takes nothing more once it is stopped, and ends the source', async () => {
    const { lanes, asked } = playDecoding();
    let isEnded = false;
    const source = (function* () {
      try {
        yield* items('abcdefghijkl');
      } finally {
        isEnded = true;
      }
    })();
    const loader = openPhotos(source, FEEDS, lanes, OPTIONS);
    await untilQuiet();
    loader.stop();
    await untilQuiet();
    expect(isEnded).toBe(true);
    expect(asked).toHaveLength(6);
  });

  it('holds no more bytes of files than it may, and goes on as they are decoded', async () => {
    const { lanes, settle } = playDecoding();
    const fetched: string[] = [];
    const megabytes = (size: number, name: string): SourceItem => ({
      path: name,
      image: () => {
        fetched.push(name);
        return Promise.resolve(name as unknown as Uint8Array);
      },
      stamp: { sizeBytes: size * 1024 ** 2, modifiedMs: null, sha256: null },
    });
    const source = [megabytes(200, 'a'), megabytes(56, 'b'), megabytes(1, 'c'), megabytes(900, 'd')];
    const loader = openPhotos(source, FEEDS, lanes, OPTIONS);
    await untilQuiet();
    expect(fetched.join('')).toBe('ab');
    settle('b');
    await untilQuiet();
    expect(fetched.join('')).toBe('abc');
    settle('a');
    settle('c');
    await untilQuiet();
    expect(fetched.join('')).toBe('abcd');
    settle('d');
    expect((await loader.next())!.items).toHaveLength(2);
    expect((await loader.next())!.items).toHaveLength(2);
  });
});

it('a fixed batch that no memory holds is refused, with its size', () => {
  const plan = (batch: number) =>
    planFeeds(
      { inputs: [{ name: 'x', dtype: 'float32', dims: [batch, 3, 32, 32] }], imageNormalization: null },
      createTransform({ resize: 32, crop: 32 }),
    );
  expect(plan(8).multiple).toBe(8);
  const reason = /"x" \[1099511627776, 3, 32, 32\] takes 13,510,798,882,111,488 bytes.*--dynamic-batch/;
  expect(() => plan(2 ** 40)).toThrow(
    expect.objectContaining({ code: 'SESSION_FAILED', message: expect.stringMatching(reason) }),
  );
});
