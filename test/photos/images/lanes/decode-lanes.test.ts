/** Threads that decode into shared memory: they give the pixels of loadImage, and every image settles. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DecodeLanes, stampOfFailed } from '../../../../build/modules/photos/images/lanes/decode-lanes.js';
import { createTransform, loadImage } from '../../../../build/modules/index.js';
import { fixturePath, projectPath } from '../../../support/fixtures.js';
import { runScript } from '../../../support/run.js';

const transform = createTransform('ImageNet1K_V1');
const BYTES = 224 * 224 * 3;
const photos = ['sea/sea-0.jpg', 'city/city-0.jpg', 'dunes/dunes-0.jpg'].map((name) =>
  projectPath(`examples/photos/${name}`),
);
const memory = (images: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(images * BYTES));
const place = (pixels: Uint8Array, i: number): Uint8Array => pixels.subarray(i * BYTES, (i + 1) * BYTES);

describe('decoding threads', () => {
  it('write the pixels of loadImage, from paths and from bytes', async () => {
    const lanes = new DecodeLanes(transform, 2);
    const sources = photos.flatMap((path) => [path, new Uint8Array(readFileSync(path))]);
    const pixels = memory(sources.length);
    const sizes = await Promise.all(sources.map((source, i) => lanes.load(source, place(pixels, i))));
    for (const [i, source] of sources.entries()) {
      const { data, sourceWidth, sourceHeight } = await loadImage(source, transform);
      expect(sizes[i]).toMatchObject({ width: sourceWidth, height: sourceHeight, reduction: 1 });
      expect(Buffer.compare(place(pixels, i), data)).toBe(0);
    }
    expect(Math.min(lanes.spent.decodeMs, lanes.spent.resampleMs)).toBeGreaterThan(0);
    await lanes.close();
  });

  it('fail each image with its own typed error', async () => {
    const lanes = new DecodeLanes(transform, 1);
    const pixels = memory(4);
    const bad = ['missing.jpg', fixturePath('preprocess/bad/truncated.jpg'), new Uint8Array(3)];
    const results = await Promise.allSettled(
      [...bad, photos[0]!].map((source, i) => lanes.load(source, place(pixels, i))),
    );
    expect(results.map((result) => (result.status === 'rejected' ? result.reason.code : 'ok'))).toEqual([
      'IMAGE_NOT_FOUND',
      'IMAGE_TRUNCATED',
      'IMAGE_UNREADABLE',
      'ok',
    ]);
    await lanes.close();
  });

  it('settle each image separately when they get many at once', async () => {
    const lanes = new DecodeLanes(transform, 2);
    const sources = Array.from({ length: 90 }, (_, i) => (i % 7 === 3 ? `missing-${i}.jpg` : photos[i % 3]!));
    const pixels = memory(sources.length);
    const results = await Promise.allSettled(
      sources.map((source, i) => lanes.load(source, place(pixels, i))),
    );
    const exact = await Promise.all(photos.map((path) => loadImage(path, transform)));
    for (const [i, result] of results.entries()) {
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: 'IMAGE_NOT_FOUND', details: { source: sources[i] } });
      else expect(Buffer.compare(place(pixels, i), exact[i % 3]!.data)).toBe(0);
    }
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(13);
    await lanes.close();
  });

  it.each([false, true, 'digest'] as const)(
    'give the stamp of each file, with checksum: %s',
    async (checksum) => {
      const lanes = new DecodeLanes(transform, 2, { checksum });
      const pixels = memory(1);
      const stampFrom = (path: string): object => {
        const sha256 = createHash('sha256').update(readFileSync(path)).digest('hex');
        return {
          sizeBytes: statSync(path).size,
          modifiedMs: Math.floor(statSync(path).mtimeMs),
          sha256: checksum === true ? sha256 : null,
          ...(checksum !== false && { digest: sha256.slice(0, 32) }),
        };
      };
      const [photo] = photos as [string];
      expect((await lanes.load(photo, pixels)).stamp).toEqual(stampFrom(photo));
      const bytes = new Uint8Array(readFileSync(photo));
      expect((await lanes.load(bytes, pixels)).stamp).toEqual({ ...stampFrom(photo), modifiedMs: null });
      // A file that could be opened has a stamp even if its image fails.
      const bad = fixturePath('preprocess/bad/truncated.jpg');
      const stampOfError = (source: string): Promise<object | undefined> =>
        lanes.load(source, pixels).then(() => expect.unreachable(), stampOfFailed);
      expect(await stampOfError(bad)).toEqual(stampFrom(bad));
      expect(await stampOfError('missing.jpg')).toBeUndefined();
      await lanes.close();
    },
  );

  it('do not detach the caller’s bytes, nor the buffer around them', async () => {
    const bytes = readFileSync(photos[0]!);
    const large = new Uint8Array(bytes.length + 1_000_000);
    large.set(bytes, 1000);
    const view = large.subarray(1000, 1000 + bytes.length);
    const lanes = new DecodeLanes(transform, 1);
    const pixels = memory(1);
    await lanes.load(view, pixels);
    expect(view.length).toBe(bytes.length);
    expect(Buffer.compare(pixels, (await loadImage(bytes, transform)).data)).toBe(0);
    await lanes.close();
  });

  it('reject images that have not begun on closing, and all later ones', async () => {
    const lanes = new DecodeLanes(transform, 1);
    const pixels = memory(1);
    const loads = Array.from({ length: 20 }, () => lanes.load(photos[0]!, pixels));
    const settled = Promise.allSettled(loads);
    await lanes.close();
    const states = (await settled).map((result) =>
      result.status === 'rejected' ? (result.reason as { code: string }).code : 'ok',
    );
    expect(states.filter((state) => state === 'CLOSED').length).toBeGreaterThan(10);
    expect(states.every((state) => state === 'CLOSED' || state === 'ok')).toBe(true);
    await expect(lanes.load(photos[0]!, pixels)).rejects.toMatchObject({ code: 'CLOSED' });
    await lanes.close();
  });

  it('report a thread that ends unexpectedly', async () => {
    // Not a transform, which only the thread notices.
    const lanes = new DecodeLanes({ options: undefined } as never, 1);
    await expect(lanes.load(photos[0]!, memory(1))).rejects.toMatchObject({ code: 'DECODER_DIED' });
    await lanes.close();
  });
});

describe('a process that is decoding images', () => {
  const script = (end: string): string => `
    import { createTransform } from 'onnx-tapir';
    import { DecodeLanes } from ${JSON.stringify(projectPath('build/modules/photos/images/lanes/decode-lanes.js'))};
    const lanes = new DecodeLanes(createTransform('ImageNet1K_V1'), 2);
    const pixels = new Uint8Array(new SharedArrayBuffer(${BYTES}));
    const loads = Array.from({ length: 40 }, () => lanes.load(${JSON.stringify(photos[0])}, pixels));
    for (const load of loads) load.catch(() => undefined);
    await loads[3];
    console.log('busy');
    ${end}`;

  it.each([
    ['process.exit', 'process.exit(7);', 7],
    ['an uncaught error', "setTimeout(() => { throw new Error('uncaught'); });", 1],
    ['the end of the script', 'await lanes.close();', 0],
    ['the end of the script, with idle threads', 'await Promise.all(loads);', 0],
  ])('ends by %s with its exit code', async (_way, end, code) => {
    for (let round = 0; round < 3; round++)
      expect(await runScript(script(end))).toMatchObject({ code, signal: null });
  });
});
