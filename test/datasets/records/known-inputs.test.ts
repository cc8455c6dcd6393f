import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KnownInputs, type Outcome } from '../../../src/datasets/records/known-inputs.js';
import type { FileStamp } from '../../../src/base/file-stamp.js';

const OUTCOMES: readonly Outcome[] = ['ok', 'IMAGE_UNREADABLE', 'IMAGE_NOT_FOUND'];
const stampOfTime = (modifiedMs: number): FileStamp => ({ sizeBytes: 3, modifiedMs, sha256: null });

describe('KnownInputs', () => {
  it('is a map by path', () => {
    const entry = fc.tuple(fc.string({ maxLength: 2 }), fc.constantFrom(...OUTCOMES), fc.nat(), fc.nat(9));
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 400 }), fc.nat(50), (entries, expected) => {
        const known = new KnownInputs(expected);
        const map = new Map<string, (typeof entries)[number]>();
        for (const one of entries) {
          const [path, outcome, time, shard] = one;
          known.set(path, outcome, stampOfTime(time), shard);
          map.set(path, one);
        }
        expect(known.size).toBe(map.size);
        expect(known.find('not there')).toBeUndefined();
        for (const [path, [, outcome, time, shard]] of map) {
          const found = known.find(path)!;
          expect([found.outcome, found.shard]).toEqual([outcome, shard]);
          expect(found.isAs(stampOfTime(time))).toBe(true);
          expect(found.isAs(stampOfTime(time + 1))).toBe(false);
        }
      }),
    );
  });

  it('keeps 100,000 in a few megabytes, and what it knows when it grows', () => {
    const known = new KnownInputs();
    for (let i = 0; i < 100_000; i++) known.set(`folder/${i}.jpg`, 'ok', null, i % 7);
    expect(known.size).toBe(100_000);
    for (let i = 0; i < 100_000; i += 997) expect(known.find(`folder/${i}.jpg`)?.shard).toBe(i % 7);
  });

  it('remembers what was seen, whatever becomes of it', () => {
    const known = new KnownInputs();
    known.set('a', 'ok', null, 0);
    expect([known.markSeen('a'), known.markSeen('a')]).toEqual([false, true]);
    known.set('a', 'IMAGE_UNREADABLE', null, 1);
    expect([known.markSeen('a'), known.find('a')?.outcome]).toEqual([true, 'IMAGE_UNREADABLE']);
    known.reserve('b');
    expect(known.markSeen('b')).toBe(true);
  });

  it('compares contents where they are known, else size and time', () => {
    const known = new KnownInputs();
    const hashed = { sizeBytes: 3, modifiedMs: 5, sha256: 'ab'.repeat(32) };
    known.set('a', 'ok', hashed, 0);
    expect(known.find('a')?.isAs({ ...hashed, modifiedMs: 6 })).toBe(true);
    expect(known.find('a')?.isAs({ ...hashed, sha256: 'cd'.repeat(32) })).toBe(false);
    expect(known.find('a')?.isAs({ ...hashed, sha256: null })).toBe(false);
    // A row of a dataset from before contents were hashed.
    known.set('b', 'ok', { ...hashed, sha256: null }, 0);
    expect(known.find('b')?.isAs(hashed)).toBe(true);
    expect(known.find('b')?.isAs({ ...hashed, modifiedMs: 6 })).toBe(false);
    known.markSeen('a');
    known.fail('a', 'IMAGE_UNREADABLE');
    for (let i = 0; i < 200; i++) known.set(`${i}`, 'ok', null, 0);
    expect(known.find('a')).toMatchObject({ outcome: 'IMAGE_UNREADABLE', isSeen: true });
    expect(known.find('a')?.isAs({ ...hashed, modifiedMs: 6 })).toBe(true);
  });
});
