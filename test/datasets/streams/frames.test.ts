/** Frames of a video as raw pixels, as `ffmpeg -f rawvideo -pix_fmt rgb24` gives them: the recipe, with a generator in place of ffmpeg. */
import { createFeatureExtractor, embedImages, embedStream } from 'onnx-tapir';
import sharp from 'sharp';
import { afterAll, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';

const [width, height, count] = [160, 90, 12];
const bytes = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
const extractor = await createFeatureExtractor(
  bytes,
  { avgpool: 'vector' },
  { transform: { resize: 72, crop: 64 } },
);
afterAll(() => extractor.close());

const frame = (number: number): Uint8Array =>
  Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * (number + 3) + (i >> 6)) % 256);

/** A pipe in chunks that end anywhere. */
async function* pipe(): AsyncGenerator<Uint8Array> {
  const all = Buffer.concat(Array.from({ length: count }, (_, number) => frame(number)));
  for (let at = 0; at < all.length; at += 40_001) yield all.subarray(at, at + 40_001);
}

/** The recipe's: one buffer for all frames. */
async function* frames(): AsyncGenerator<{ data: Uint8Array; width: number; height: number }> {
  const data = new Uint8Array(width * height * 3);
  let filled = 0;
  for await (const chunk of pipe())
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + data.length - filled);
      data.set(part, filled);
      at += part.length;
      filled += part.length;
      if (filled < data.length) continue;
      filled = 0;
      yield { data, width, height };
    }
}

it('frames of a pipe have the vectors of their PNGs', async () => {
  const pngs = await Promise.all(
    Array.from({ length: count }, (_, number) =>
      sharp(frame(number), { raw: { width, height, channels: 3 } })
        .png()
        .toBuffer(),
    ),
  );
  const options = { batch: 4 };
  const expected = [];
  for await (const { features } of embedImages(extractor, pngs, options))
    expected.push(features!.vector.data);
  const found = [];
  for await (const { features, path } of embedImages(extractor, frames(), options)) {
    expect(path).toBeNull();
    found.push(features!.vector.data);
  }
  expect(found).toEqual(expected);

  const stream = embedStream<'vector', { time: number }>(extractor, { ...options, maxWaitMs: 60_000 });
  const writing = (async () => {
    let time = 0;
    for await (const image of frames())
      await new Promise((resolve) => stream.write({ image, time: time++ }, resolve));
    stream.end();
  })();
  const rows = [];
  for await (const { features, time } of stream) rows.push([time, features!.vector.data] as const);
  await writing;
  expect(rows.map(([time]) => time)).toEqual(expected.map((_, at) => at));
  expect(rows.map(([, vector]) => vector)).toEqual(expected);
});
