import { afterEach, expect, it, vi } from 'vitest';
import { ProgressMeter } from '../../../build/modules/datasets/embed/progress.js';
import { createFeatureExtractor } from '../../../build/modules/index.js';
import { tinyResNet } from '../../support/fixtures.js';

afterEach(() => vi.restoreAllMocks());

it('tells speed and time left over the last ten seconds, and what is waited for', async () => {
  const extractor = await createFeatureExtractor(tinyResNet(), ['fc']);
  let now = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const meter = new ProgressMeter(extractor);
  expect(meter.progress(0, null)).toMatchObject({
    done: 0,
    etaSeconds: null,
    limit: null,
    imagesPerSecond: 0,
  });
  const item = { error: null };
  const batch = (size: number, failed = 0): never =>
    ({
      items: [
        ...Array<object>(size - failed).fill(item),
        ...Array<object>(failed).fill({ error: new Error() }),
      ],
      features: {},
    }) as never;
  // Slow at first, then ten a second: the beginning is forgotten.
  for (let second = 1; second <= 30; second++) {
    now += 1000;
    meter.add(batch(second <= 15 ? 1 : 10, second === 3 ? 1 : 0));
  }
  const progress = meter.progress(35, 400);
  expect(progress).toMatchObject({
    done: 165,
    failed: 1,
    skipped: 35,
    total: 400,
    seconds: 30,
    limit: 'decode',
  });
  expect(progress.imagesPerSecond).toBeCloseTo(10, 5);
  expect(progress.etaSeconds).toBeCloseTo(20, 5);
  expect(progress.devices).toEqual([{ device: 'cpu', busy: 0 }]);
  await extractor.close();
});
