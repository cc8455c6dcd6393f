/** A disk that is full: a clear error, nothing corrupt, and the same command goes on when there is room. */
import fs, { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { createFeatureExtractor, embedFolder, type EmbedSummary, type FeatureExtractor } from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { scratchFolder } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';

const scratch = mkdtempSync(join(scratchFolder(), 'full-'));
const photos = join(scratch, 'photos');
let extractor: FeatureExtractor<'f'>;

beforeAll(async () => {
  copyPhotos(photos);
  const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes;
  extractor = await createFeatureExtractor(model, { avgpool: 'f' });
});
afterAll(() => extractor.close());

const run = (out: string): Promise<EmbedSummary> =>
  embedFolder(extractor, photos, { out, batch: 4, shardSize: 8 });
const filesOf = (out: string): Map<string, string> =>
  new Map(
    ['features/f', 'metadata']
      .flatMap((folder) =>
        readdirSync(join(out, folder), { withFileTypes: true }).map((entry) => ({ folder, entry })),
      )
      // Not the device: there is no end to what it gives.
      .filter(({ entry }) => entry.isFile())
      .map(({ folder, entry }) => `${folder}/${entry.name}`)
      .map((file) => [file, readFileSync(join(out, file)).toString('base64')]),
  );

/** Lets new temporary files in a folder be the device that is always full. Returns the way back. */
function fillDisk(folder: string): () => void {
  const { open } = fs.promises;
  const use = (opening: typeof open): void => {
    fs.promises.open = opening;
    syncBuiltinESMExports();
  };
  use((path, ...how) =>
    dirname(String(path)) === folder && how[0] === 'wx' ? open('/dev/full', 'w') : open(path, ...how),
  );
  return () => use(open);
}

describe.runIf(existsSync('/dev/full'))('a full disk', () => {
  // Linux refuses every write to this device as a full disk does.
  it.each(['features/f/f-00001.npy', 'metadata/metadata-00001.parquet'])('at %s', async (file) => {
    const whole = join(scratch, `whole-${file.length}`);
    await run(whole);
    const out = join(scratch, `out-${file.length}`);
    await run(out);
    // A dataset with its first shard, and no room for the second one.
    const journal = readFileSync(join(out, 'journal.jsonl'), 'utf8').split('\n').slice(0, 3).join('\n');
    writeFileSync(join(out, 'journal.jsonl'), `${journal}\n`);
    rmSync(join(out, 'manifest.json'));
    const empty = fillDisk(dirname(join(out, file)));
    onTestFinished(empty);
    await expect(run(out)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
      message: expect.stringMatching(/no space left.*same command/s),
    });
    empty();
    expect(existsSync(join(out, 'manifest.json'))).toBe(false);
    expect(readdirSync(join(out, file, '..')).filter((name) => name.endsWith('partial'))).toEqual([]);
    const { embedded, skipped } = await run(out);
    expect([embedded, skipped]).toEqual([16, 8]);
    expect(filesOf(out)).toEqual(filesOf(whole));
  });
});
