import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { TrainingPhotos } from '../../../../build/modules/learn/train/folder/training-photos.js';
import { createTransform, openModel } from '../../../../build/modules/index.js';
import { createModel } from '../../../../build/modules/learn/zoo/index.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { readClassFolders } from '../../../../build/modules/learn/train/folder/class-folders.js';

it('decodes training and held-out photos in as many threads as asked for', async () => {
  let started = 0;
  const count = (): void => void started++;
  process.on('worker', count);
  onTestFinished(() => void process.off('worker', count));
  const network = await createModel('shufflenet_v2_x0_5', { imageSize: 64, seed: 1 });
  const path = join(scratchFolder(), 'model.onnx');
  await network.save(path);
  const model = await openModel(path);
  const transform = createTransform({ resize: 64, crop: 64 });
  const shares = { rank: 0, size: 1, uneven: 'keep', batch: 4 } as const;
  const plan = { transform, shares, threads: 1, isAugmented: true, seed: 1 };
  await using photos = new TrainingPhotos(model, plan);
  const { images } = await readClassFolders(projectPath('examples/photos'));
  const feedOf = async (batches: AsyncGenerator<{ readonly input: unknown } | null>): Promise<string> => {
    const feeds: unknown[] = [];
    for await (const batch of batches) feeds.push(batch?.input);
    return JSON.stringify(feeds);
  };
  const trained = await feedOf(photos.epoch(images.slice(0, 4), 1, 0));
  const held = await feedOf(photos.heldOut(images.slice(0, 4)));
  expect(held).not.toBe(trained);
  expect(started).toBe(1);
});
