/** Every kind of photo at every place that takes photos: the table of conformance/photo-kinds.md has no hole. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, createTransform, loadImage, type ImageSource } from 'onnx-tapir';
import { attribute } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { afterAll, describe, expect, it } from 'vitest';
import { describeKinds, KINDS, PLACES, type Bench } from '../../conformance/photo-kinds.js';
import { buildResNet } from '../../models/resnet.js';
import { isPhoto } from '../../src/photos/images/formats/image-source.js';
import { sendFile, startServer } from '../support/file-server.js';
import { projectPath, scratchFolder } from '../support/fixtures.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const path = join(scratch, 'photo.png');
const transform = { resize: 72, crop: 64 };
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes);
await sharp(projectPath('examples/photos/sea/sea-0.jpg')).png().toFile(path);
const bytes = readFileSync(path);
const { url } = await startServer((request, response) => sendFile(request, response, bytes));
const extractor = await createFeatureExtractor(model, { avgpool: 'vector' }, { transform });
let folders = 0;
const bench: Bench = {
  extractor,
  model,
  photo: path,
  transform,
  out: (name) => join(scratch, `${name}-${folders++}`),
};
afterAll(() => extractor.close());

const make = (): Promise<ImageSource[]> =>
  Promise.all(Object.values(KINDS).map(async (kind) => await kind({ path, url: `${url}/photo.png` })));

it.each(Object.entries(PLACES))('%s takes every kind, with the result of the file', async (_place, take) => {
  const kinds = await make();
  // As many copies of the file: a vector depends on the size of its batch.
  const expected = await take(
    kinds.map(() => path),
    bench,
  );
  const results = await take(kinds, bench);
  expect(expected[0]!.length).toBeGreaterThan(0);
  expect(results).toHaveLength(kinds.length);
  const differing = Object.keys(KINDS).filter((_, at) => !equals(results[at], expected[at]));
  expect(differing).toEqual([]);
});

it('attribute takes every kind', async () => {
  const kinds = await make();
  expect(kinds.filter((photo) => !isPhoto(photo))).toEqual([]);
  const batch = { dims: [1, 3, 64, 64], data: new Float32Array(3 * 64 * 64) };
  expect([batch, { input: batch }, [batch]].filter((input) => isPhoto(input))).toEqual([]);
  const options = { method: 'saliency' } as const;
  const { map, overlay } = await attribute(extractor, kinds.at(-1)!, options);
  expect(map).toEqual((await attribute(extractor, await loadImage(path, transform), options)).map);
  expect((await overlay()).length).toBeGreaterThan(0);
});

function equals(a: Uint8Array | Float32Array | undefined, b: Uint8Array | Float32Array | undefined): boolean {
  return a !== undefined && a.length === b?.length && a.every((value, at) => value === b[at]);
}

it('is what the table says', () => {
  expect(readFileSync(projectPath('conformance/photo-kinds.md'), 'utf8')).toBe(describeKinds());
});

describe('decoded pixels', () => {
  const png = async (channels: 1 | 3 | 4): Promise<{ file: Buffer; pixels: ImageSource }> => {
    const data = Buffer.from(Array.from({ length: 90 * 70 * channels }, (_, i) => (i * 37 + (i >> 5)) % 256));
    const file = await sharp(data, { raw: { width: 90, height: 70, channels } })
      .toColourspace(channels === 1 ? 'b-w' : 'srgb')
      .png()
      .toBuffer();
    return { file, pixels: { data, width: 90, height: 70 } };
  };

  it.each([1, 3, 4] as const)(
    'of %d channels equal a PNG of them, alpha as the option says',
    async (channels) => {
      const { file, pixels } = await png(channels);
      for (const alpha of ['drop', 'white'] as const)
        for (const channelOrder of ['rgb', 'bgr', 'grey'] as const) {
          const values = channelOrder === 'grey' ? { mean: null, std: null } : {};
          const how = createTransform({ resize: 48, crop: 40, alpha, channelOrder, ...values });
          const [a, b] = [await loadImage(pixels, how), await loadImage(file, how)];
          expect(Buffer.compare(a.data, b.data)).toBe(0);
          expect(a.toTensor()).toEqual(b.toTensor());
        }
    },
  );

  it('stay the caller’s: nothing is written to them', async () => {
    const data = new Uint8Array(30 * 20 * 3).map((_, i) => i);
    const before = data.slice();
    await loadImage(
      { data, width: 30, height: 20 },
      { channelOrder: 'grey', mean: null, std: null, resize: 16 },
    );
    expect(data).toEqual(before);
  });

  it('that a transform has resized go to run, and nowhere else', async () => {
    const own = createTransform(transform);
    const { data, info } = await sharp(path).removeAlpha().raw().toBuffer({ resolveWithObject: true });
    const applied = own.apply({ data, width: info.width, height: info.height });
    const { vector } = await extractor.run(applied);
    expect(vector.data).toEqual((await extractor.run(await loadImage(path, own))).vector.data);
    await expect(extractor.embed(applied)).rejects.toThrow(/what loadImage or apply\(\) gave goes to run/);
    await expect(extractor.run({ data, width: 400, height: 300 })).rejects.toThrow(
      /pixels; embed takes them/,
    );
  });

  it.each<[unknown, RegExp]>([
    [sharp(bytes), /an object of sharp: pass "await image\.raw\(\)/],
    [Promise.resolve(bytes), /a Promise \(forgotten await\?\)/],
    [{}, /not an object \{\}/],
    [{ path: 'a.jpg', label: 'cat' }, /not an object .* \(with columns: for embedFolder/],
    [new Map(), /not an object of class Map/],
    [7, /not a number/],
    [null, /not null/],
    [{ data: bytes, width: 3, height: 4 }, /got "3 × 4, \d+ bytes"/],
    [{ data: new Uint8Array(24), info: { width: 3, height: 4, channels: 2 } }, /got "3 × 4, 2 channels/],
    [{ data: new Uint8Array(3), width: -1, height: -1 }, /got "-1 × -1, 3 bytes"/],
    [{ data: new Uint16Array(12), width: 2, height: 2 }, /no Uint8Array/],
    [{ dims: [1], data: new Float32Array(1) }, /a tensor, which run takes/],
    [bytes.toString('base64'), /of base64, pass Buffer\.from/],
    [`data:image/png,${bytes.toString('base64')}`, /has ";base64," before/],
  ])('are told from what is no photo, in few words: %#', async (photo, message) => {
    const error: unknown = await extractor.embed(photo as ImageSource).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(message) as string,
    });
    expect((error as Error).message.length).toBeLessThanOrEqual(200);
  });
});
