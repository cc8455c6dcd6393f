/** Folders that change while they are embedded, and a clock that goes back. */
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  openDataset,
  type EmbedProgress,
  type FeatureExtractor,
} from 'onnx-tapir';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

const sea = projectPath('examples/photos/sea');
const samples = readdirSync(sea).map((name) => readFileSync(join(sea, name)));
const transform = createTransform({ resize: 64, crop: 64 });
const scratch = scratchFolder();
let extractor: FeatureExtractor<'v'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
});
afterAll(() => extractor.close());

/** Folders of photos. */
function makePhotos(name: string, folders: number, photos: number): string {
  const root = join(scratch, name);
  for (let folder = 0; folder < folders; folder++) {
    mkdirSync(join(root, `f${folder}`), { recursive: true });
    for (let photo = 0; photo < photos; photo++)
      writeFileSync(join(root, `f${folder}`, `${photo}.jpg`), samples[photo % samples.length]!);
  }
  return root;
}

async function outcomes(out: string): Promise<Map<string, string>> {
  const rows = new Map<string, string>();
  for await (const { path, status, errorCode } of (await openDataset(out)).rows())
    rows.set(path!, status === 'ok' ? 'ok' : (errorCode ?? 'no code'));
  return rows;
}

/** Changes something below a folder. */
function change(root: string, next: () => number): void {
  const folder = join(root, `f${Math.floor(next() * 8)}`);
  const file = join(folder, `${Math.floor(next() * 12)}.jpg`);
  const changes = [
    () => rmSync(file, { force: true }),
    () => truncateSync(file, Math.floor(next() * 20_000)),
    () => writeFileSync(file, samples[0]!),
    () => renameSync(file, `${file}.old.jpg`),
    () => writeFileSync(file, ''),
    () => rmSync(folder, { recursive: true, force: true }),
    () => renameSync(folder, `${folder}-renamed`),
    () => {
      rmSync(folder, { recursive: true, force: true });
      writeFileSync(folder, 'a file now');
    },
    () => mkdirSync(folder, { recursive: true }),
    () => {
      rmSync(file, { force: true });
      mkdirSync(file);
    },
  ];
  try {
    changes[Math.floor(next() * changes.length)]!();
  } catch {
    // Some changes do not apply to what others have left.
  }
}

describe('a folder that changes while it is embedded', () => {
  it.each([1, 2, 3, 4, 5, 6])(
    'gives a row or an error for each input, and heals afterwards (seed %i)',
    async (seed) => {
      const root = makePhotos(`churn-${seed}`, 8, 12);
      const out = join(scratch, `churn-${seed}-out`);
      const next = createRandom(seed);
      let batches = 0;
      const first = await embedFolder(extractor, root, {
        out,
        transform,
        batch: 4,
        shardSize: 16,
        decodeThreads: 2,
        onProgress: () => {
          batches++;
          for (let i = 0; i < 3; i++) change(root, next);
        },
      });
      expect(batches).toBeGreaterThan(3);
      const codes = new Set((await outcomes(out)).values());
      const allowed = [
        'ok',
        'IMAGE_VANISHED',
        'IMAGE_NOT_FOUND',
        'IMAGE_TRUNCATED',
        'IMAGE_UNREADABLE',
        'IMAGE_EMPTY',
      ];
      expect(allowed).toEqual(expect.arrayContaining([...codes]));
      const { inputs, ok, errors } = first.manifest.counts;
      expect([inputs, ok + errors]).toEqual([first.embedded, inputs]);
      // The photos are back, and the dataset holds a vector of each.
      rmSync(root, { recursive: true });
      makePhotos(`churn-${seed}`, 8, 12);
      await embedFolder(extractor, root, { out, transform, batch: 4, shardSize: 16 });
      const healed = await outcomes(out);
      for (let folder = 0; folder < 8; folder++)
        for (let photo = 0; photo < 12; photo++) expect(healed.get(`f${folder}/${photo}.jpg`)).toBe('ok');
    },
  );
});

describe('a clock that goes back', () => {
  afterEach(() => void vi.useRealTimers());

  it('changes nothing: files are compared by their stamps, time is measured by another clock', async () => {
    const root = makePhotos('clock', 1, 6);
    const out = join(scratch, 'clock-out');
    await embedFolder(extractor, root, { out, transform });
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2001-02-03') });
    // An older file in the place of one that was embedded.
    copyFileSync(join(sea, readdirSync(sea).at(-1)!), join(root, 'f0/0.jpg'));
    utimesSync(join(root, 'f0/0.jpg'), new Date('2001-01-01'), new Date('2001-01-01'));
    const seen: EmbedProgress[] = [];
    const again = await embedFolder(extractor, root, { out, transform, onProgress: (now) => seen.push(now) });
    expect([again.embedded, again.skipped, again.failed]).toEqual([1, 5, 0]);
    for (const { seconds, imagesPerSecond, etaSeconds } of seen)
      expect(Math.min(seconds, imagesPerSecond, etaSeconds ?? 0)).toBeGreaterThanOrEqual(0);
    expect(again.manifest.run.seconds).toBeGreaterThanOrEqual(0);
    // Back in the present, nothing has changed.
    vi.useRealTimers();
    const { embedded, skipped } = await embedFolder(extractor, root, { out, transform });
    expect([embedded, skipped]).toEqual([0, 6]);
  });
});
