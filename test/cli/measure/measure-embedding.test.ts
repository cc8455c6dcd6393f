/** measureEmbedding as a call; the figures need only make sense. The command's test looks at them closer. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measureEmbedding } from '../../../build/modules/cli/measure/measure-embedding.js';
import {
  createFeatureExtractor,
  createTransform,
  type FeatureExtractor,
} from '../../../build/modules/index.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';

const photos = projectPath('examples/photos/sea');
const transform = createTransform({ resize: 64, crop: 64 });
const short = { transform, seconds: 0.1, rounds: 1, batch: 2 };
let extractor: FeatureExtractor<'v'>;

beforeAll(async () => {
  extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
});
afterAll(() => extractor.close());

describe('measureEmbedding', () => {
  it('reports both speeds, what limits them, and the phases as they begin', async () => {
    const phases: string[] = [];
    const report = await measureEmbedding(extractor, photos, {
      ...short,
      onProgress: ({ what }) => phases.push(what!),
    });
    expect(phases).toEqual([
      'warming up: decoding',
      'warming up: the model',
      'warming up: end to end',
      'round 1 of 1: decoding',
      'round 1 of 1: the model',
      'round 1 of 1: end to end',
    ]);
    const { decode, model, endToEnd, limit, ofLimit, busy } = report;
    expect(report).toMatchObject({ device: 'cpu', batch: 2, images: 4 });
    expect(limit).toBeCloseTo(1 / (1 / decode.imagesPerSecond + 1 / model.imagesPerSecond), 5);
    expect(ofLimit).toBeCloseTo(endToEnd.imagesPerSecond / limit, 5);
    for (const share of [busy.main, ...busy.devices]) expect(share).toBeGreaterThan(0);
    expect(report.peakMemoryBytes).toBeGreaterThan(1e7);
  });

  it('stops when its signal fires', async () => {
    const stop = new AbortController();
    const measuring = measureEmbedding(extractor, photos, {
      ...short,
      seconds: 3600,
      signal: stop.signal,
      onProgress: () => stop.abort(new Error('enough')),
    });
    await expect(measuring).rejects.toThrow('enough');
  });

  it.each([
    [{ seconds: 0 }, 'seconds'],
    [{ seconds: '5' }, 'seconds'],
    [{ rounds: 0 }, 'rounds'],
    [{ onProgress: 'log' }, 'onProgress'],
  ])('refuses %j', async (options, option) => {
    const measuring = measureEmbedding(extractor, photos, { ...short, ...options } as object);
    await expect(measuring).rejects.toMatchObject({ code: 'OPTION_INVALID', details: { option } });
  });

  it('refuses images that cannot be read', async () => {
    const file = join(scratchFolder(), 'a.jpg');
    writeFileSync(file, 'no image');
    await expect(measureEmbedding(extractor, [file], short)).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
    });
    await expect(measureEmbedding(extractor, [], short)).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
  });
});
