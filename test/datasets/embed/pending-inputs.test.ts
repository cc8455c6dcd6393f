/** What a source gives, split by what the dataset holds. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../src/base/digest.js';
import { stampOfFrames } from '../../../src/photos/feeds/load-frames.js';
import { KnownInputs } from '../../../src/datasets/records/known-inputs.js';
import { PendingInputs } from '../../../src/datasets/embed/pending-inputs.js';
import { stampOf } from '../../../src/photos/images/file/image-file.js';
import { missingImage } from '../../../src/photos/images/file/image-errors.js';
import type { SourceItem } from '../../../src/photos/feeds/items/source-item.js';
import { scratchFolder } from '../../support/fixtures.js';

const folder = mkdtempSync(join(scratchFolder(), 'pending-'));
const fileOf = (name: string): string => join(folder, name);
for (const name of ['same', 'changed', 'failed', 'new']) writeFileSync(fileOf(name), name);
const itemOf = (path: string): SourceItem => ({ path, image: fileOf(path) });

/** A dataset that holds these files, one of which has changed since, and one of which had failed. */
async function known(checksum = false): Promise<KnownInputs> {
  const inputs = new KnownInputs();
  for (const name of ['same', 'changed', 'failed', 'gone']) {
    const stamp = name === 'gone' ? null : await stampOf(fileOf(name), { checksum });
    inputs.set(name, name === 'failed' ? 'IMAGE_EMPTY' : 'ok', stamp, 0);
  }
  inputs.set('changed', 'ok', { sizeBytes: 1, modifiedMs: 1, sha256: checksum ? 'a'.repeat(64) : null }, 0);
  return inputs;
}

async function split(
  source: readonly SourceItem[],
  inputs: KnownInputs,
  { isUnique = false, checksum = false, isReread = false } = {},
) {
  const reread = isReread
    ? async function* () {
        yield* source;
      }
    : undefined;
  const pending = new PendingInputs(source, inputs, { isUnique, checksum, reread });
  const fresh: string[] = [];
  for await (const { path } of pending.fresh()) fresh.push(path);
  const again: string[] = [];
  for await (const { path } of pending.again()) again.push(path);
  const { skipped, duplicates } = pending;
  return { fresh, again, skipped, duplicates };
}

describe('PendingInputs', () => {
  it.each([{ checksum: false }, { checksum: true }, { isReread: true }, { checksum: true, isReread: true }])(
    'tells new, changed, failed and known inputs apart (%o)',
    async (how) => {
      const source = ['failed', 'new', 'same', 'changed', 'gone'].map(itemOf);
      expect(await split(source, await known(how.checksum), { isUnique: true, ...how })).toEqual({
        fresh: ['new'],
        again: ['failed', 'changed'],
        // What cannot be looked at any more keeps its features.
        skipped: 2,
        duplicates: 0,
      });
    },
  );

  it('takes each input once, whether the dataset holds it or not', async () => {
    const source = ['new', 'same', 'new', 'same', 'failed', 'failed', 'new'].map(itemOf);
    expect(await split(source, await known())).toEqual({
      fresh: ['new'],
      again: ['failed'],
      skipped: 1,
      duplicates: 4,
    });
  });

  it('holds no bytes of a source that can be read twice, and hands bytes on at once', async () => {
    const inputs = new KnownInputs();
    for (const name of ['a', 'b', 'c']) inputs.set(name, 'IMAGE_TRUNCATED', null, 0);
    let given = 0;
    const source = async function* (): AsyncGenerator<SourceItem> {
      for (const path of ['a', 'new', 'b', 'b', 'newer', 'c']) {
        given++;
        yield { path, image: Buffer.from(path) };
      }
    };
    const pending = new PendingInputs(source(), inputs, {
      isUnique: false,
      checksum: false,
      reread: source,
    });
    const fresh: [string, number][] = [];
    for await (const { path } of pending.fresh()) fresh.push([path, given]);
    expect(fresh).toEqual([
      ['new', 2],
      ['newer', 5],
    ]);
    const again: [string, string][] = [];
    for await (const { path, image } of pending.again()) again.push([path, String(image)]);
    expect(again).toEqual([
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
    ]);
    expect(given).toBe(12);
  });

  it('compares the content of bytes that have no time, and says it', async () => {
    const named = (content: string): SourceItem => ({ path: 'a', image: Buffer.from(content) });
    const stamped = (content: string): SourceItem => ({
      ...named(content),
      stamp: { sizeBytes: 2, modifiedMs: null, sha256: null },
    });
    const framed = (content: string): SourceItem => ({
      ...named(''),
      clip: { start: 0, files: [named(content), named('x')] },
    });
    for (const make of [named, stamped, framed]) {
      const first: SourceItem[] = [];
      for await (const item of new PendingInputs([make('ab')], new KnownInputs(), {
        isUnique: false,
        checksum: false,
      }).fresh())
        first.push(...(item.clip?.files ?? [item]));
      const [stamp] = first.map((item) => item.stamp!);
      expect(stamp).toEqual({ sizeBytes: 2, modifiedMs: null, sha256: digestOf('ab') });
      const holding = (): KnownInputs => {
        const inputs = new KnownInputs();
        const whole = make === framed ? stampOfFrames(first.map((item) => item.stamp!)) : stamp!;
        inputs.set(make === framed ? 'a\0' + '0' : 'a', 'ok', whole, 0);
        return inputs;
      };
      expect((await split([make('ab')], holding())).again).toEqual([]);
      expect((await split([make('cd')], holding())).again).toEqual(['a']);
    }
    // A time is enough.
    const timed = { ...named('ab'), stamp: { sizeBytes: 2, modifiedMs: 7, sha256: null } };
    const pending = new PendingInputs([timed], new KnownInputs(), { isUnique: false, checksum: false });
    for await (const { stamp } of pending.fresh()) expect(stamp).toEqual(timed.stamp);
    const inputs = new KnownInputs();
    inputs.set('a', 'ok', { ...timed.stamp, sha256: digestOf('ab') }, 0);
    expect((await split([timed], inputs, { checksum: true })).again).toEqual([]);
  });

  it('knows bytes by their position; with a row from before contents were hashed, it compares sizes', async () => {
    const bytes: SourceItem = { path: null, image: Uint8Array.of(1, 2) };
    const source = [bytes, itemOf('new'), bytes];
    expect(await split(source, new KnownInputs())).toMatchObject({ fresh: ['#0', 'new', '#2'] });
    for (const [checksum, sha256] of [
      [false, null],
      [true, 'b'.repeat(64)],
    ] as const) {
      const inputs = new KnownInputs();
      inputs.set('#0', 'ok', { sizeBytes: 2, modifiedMs: null, sha256 }, 0);
      const { again } = await split(source, inputs, { checksum });
      expect(again).toEqual(checksum ? ['#0'] : []);
    }
  });

  it('gives each row of a table a name of its own, the same in each run', async () => {
    const rows = ['1.jpg', '1.jpg', '2.jpg', '1.jpg#1', '1.jpg', '#6', null].map(
      (path, heldIn): SourceItem => ({ path, image: Buffer.from(`${heldIn}`), heldIn }),
    );
    rows[4] = { ...rows[4]!, image: '', error: missingImage('1.jpg') };
    // Clips of a file have one name.
    for (const heldIn of [7, 8, 9])
      for (const start of heldIn === 8 ? [0] : [0, 4])
        rows.push({ path: 'a.gif', image: Buffer.from(`${heldIn}`), heldIn, clip: { start } });
    const fresh = ['1.jpg', '1.jpg#1', '2.jpg', '1.jpg#1#3', '1.jpg#4', '#6', '#6#6'];
    fresh.push('a.gif', 'a.gif', 'a.gif#8', 'a.gif#9', 'a.gif#9');
    expect(await split(rows, new KnownInputs())).toEqual({ fresh, again: [], skipped: 0, duplicates: 0 });
    const inputs = new KnownInputs();
    inputs.set('1.jpg', 'ok', null, 0);
    inputs.set('1.jpg#1', 'ok', { sizeBytes: 1, modifiedMs: null, sha256: digestOf('1') }, 0);
    const {
      fresh: [first],
      again,
      skipped,
    } = await split(rows, inputs);
    expect([first, again, skipped]).toEqual(['2.jpg', ['1.jpg'], 1]);
  });

  it('keeps the order of a long source', async () => {
    const names = Array.from({ length: 1000 }, (_, i) => `${i}.jpg`);
    const inputs = new KnownInputs();
    for (const [i, name] of names.entries()) if (i % 3 === 0) inputs.set(name, 'IMAGE_EMPTY', null, 0);
    const { fresh, again } = await split(names.map(itemOf), inputs, { isUnique: true });
    expect(fresh).toEqual(names.filter((_, i) => i % 3 !== 0));
    expect(again).toEqual(names.filter((_, i) => i % 3 === 0));
  });
});
