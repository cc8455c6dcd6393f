/** Vectors that are never computed twice: rows of photos that another dataset has, under any name, are copied bit for bit. */
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, mergeDataset, openDataset } from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { makeTar } from '../../support/archives.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';

const scratch = scratchFolder();
const at = (name: string): string => join(scratch, name);
const bytes = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
const options = { transform: { resize: 72, crop: 64 } } as const;
const extractor = await createFeatureExtractor(bytes, { avgpool: 'vector' });
afterAll(() => extractor.close());

copyPhotos(at('photos'));
await embedFolder(extractor, at('photos'), { ...options, out: at('first'), shardSize: 8, batch: 4 });
renameSync(at('photos'), at('moved'));
renameSync(at('moved/sea'), at('moved/lake'));
copyFileSync(fixturePath('preprocess/images/own_444.jpg'), at('moved/lake/new.jpg'));
writeFileSync(at('moved/lake/broken.jpg'), 'no photo');

/** Vectors by the digest of the photo, with its size. */
async function vectorsOf(folder: string): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  for await (const { stamp, vector, width, height } of (await openDataset(folder)).vectors('vector')) {
    expect(stamp!.digest).toMatch(/^[0-9a-f]{32}$/);
    found.set(stamp!.digest!, { width, height, vector: Buffer.from(vector.buffer).toString('hex') });
  }
  return found;
}

const first = await vectorsOf(at('first'));

describe('reuse', () => {
  it('copies the rows of photos under other names, runs the others, and counts both', async () => {
    const out = at('second');
    const reuse = [at('first')];
    const made = await embedFolder(extractor, at('moved'), {
      ...options,
      out,
      reuse,
      shardSize: 8,
      batch: 4,
    });
    expect(made).toMatchObject({ reused: 24, embedded: 2, failed: 1, skipped: 0 });
    expect(made.manifest.run.reused).toBe(24);
    expect(made.manifest.counts).toEqual({ inputs: 26, ok: 25, errors: 1 });
    const second = await vectorsOf(out);
    expect(second.size).toBe(25);
    for (const [digest, row] of first) expect(second.get(digest)).toEqual(row);
    // The new photo is what a run without it gives.
    const alone = await embedFolder(extractor, at('moved/lake'), { ...options, out: at('alone'), batch: 4 });
    expect(alone).toMatchObject({ reused: 0, failed: 1 });
    expect(alone.manifest.run).not.toHaveProperty('reused');
    const again = await embedFolder(extractor, at('moved'), {
      ...options,
      out,
      reuse,
      shardSize: 8,
      batch: 4,
    });
    expect(again).toMatchObject({ reused: 0, embedded: 1, failed: 1, skipped: 25 });
  });

  it('takes rows of merged parts, and gives parts that merge', async () => {
    for (const index of [0, 1])
      await embedFolder(extractor, at('moved'), {
        ...options,
        out: at('parts'),
        reuse: [at('first')],
        shard: { index, count: 2 },
      });
    const { manifest } = await mergeDataset(at('parts'));
    expect(manifest.counts.ok).toBe(25);
    const out = at('of-merged');
    const made = await embedFolder(extractor, at('moved'), { ...options, out, reuse: [at('parts')] });
    expect(made).toMatchObject({ reused: 25, embedded: 1, failed: 1 });
    const merged = await vectorsOf(out);
    for (const [digest, row] of first) expect(merged.get(digest)).toEqual(row);
  });

  it('knows photos of archives, and of bytes', async () => {
    const files = ['lake/sea-0.jpg', 'city/city-0.jpg'];
    const photos = files.map((name) => ({ name, bytes: readFileSync(at(`moved/${name}`)) }));
    writeFileSync(at('photos.tar'), await makeTar(photos));
    const reuse = [at('first')];
    const tar = await embedFolder(extractor, at('photos.tar'), { ...options, out: at('of-tar'), reuse });
    expect(tar).toMatchObject({ reused: 2, embedded: 0 });
    const source = photos.map((photo) => photo.bytes);
    const made = await embedFolder(extractor, source, { ...options, out: at('of-bytes'), reuse });
    expect(made).toMatchObject({ reused: 2, embedded: 0 });
  });

  it('refuses datasets of other settings, and what they are no rows of', async () => {
    const out = at('refused');
    const reuse = [at('first')];
    const other = embedFolder(extractor, at('moved'), { transform: { resize: 70, crop: 64 }, out, reuse });
    await expect(other).rejects.toMatchObject({
      code: 'DATASET_MISMATCH',
      message: expect.stringMatching(/cannot be reused.*transform\.resize/) as string,
    });
    rmSync(out, { recursive: true, force: true });
    const tiles = embedFolder(extractor, at('moved'), { ...options, out, reuse, tiles: { size: 64 } });
    await expect(tiles).rejects.toThrow('left out where each tile has a row');
    await expect(
      embedFolder(extractor, at('moved'), { ...options, out, reuse: [at('moved')] }),
    ).rejects.toThrow(/"reuse" must be folders of datasets .*which holds no dataset/);
  });
});
