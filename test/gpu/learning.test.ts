/** Gradients, attribution, statistics and training on a GPU: the numbers of the CPU. */
import { createFeatureExtractor, type Device, type Tensor } from 'onnx-tapir';
import type { BatchNormTraining } from '../../src/learn/train/runs/trainer-options.js';
import { differentiate } from 'onnx-tapir/gradients';
import { createTrainer, estimateBatchNorm } from 'onnx-tapir/train';
import { createAttribution } from 'onnx-tapir/explain';
import { describe, it } from 'vitest';
import { expectNear, expectNearNumbers, gpu, hasGpu, keepGpuWarm, smallImages } from '../support/gpu.js';
import { smallNet } from '../support/small-net.js';

const ROWS = 4;
const CLASSES = 6;

keepGpuWarm();

describe.skipIf(!hasGpu)('learning on a GPU', () => {
  it('differentiates with respect to images and weights, through a pool', async () => {
    const gradients = await differentiate(smallNet(), {
      of: ['fc'],
      withRespectTo: ['input', 'relu', 'conv1.weight', 'fc.weight'],
    });
    const seed = {
      dtype: 'float32',
      dims: [ROWS, CLASSES],
      data: Float32Array.from({ length: ROWS * CLASSES }, (_, i) => Math.cos(i)),
    } as const;
    const on = async (device: Device): Promise<Readonly<Record<string, Tensor>>> => {
      await using extractor = await createFeatureExtractor(gradients, undefined, { device });
      return await extractor.run({ input: smallImages(ROWS), 'gradient/fc': seed });
    };
    const [ours, theirs] = [await on(gpu), await on('cpu')];
    for (const [name, tensor] of Object.entries(theirs)) expectNear(ours[name]!, tensor);
  });

  it('attributes a score', async () => {
    const on = async (device: Device): Promise<Tensor> => {
      await using cam = await createAttribution(smallNet(), { method: 'grad-cam', layer: 'relu', device });
      return (await cam.run(smallImages(ROWS), { target: 3 })).map;
    };
    expectNear(await on(gpu), await on('cpu'));
  });

  it.each<[BatchNormTraining, readonly Device[]]>([
    ['frozen', [gpu]],
    ['batch', [gpu]],
    ['synced', [gpu, 'cpu']],
  ])('trains with norms %s', async (batchNorm, devices) => {
    const on = async (places: readonly Device[]): Promise<ReadonlyMap<string, Tensor>> => {
      await using trainer = await createTrainer(smallNet(), {
        loss: 'cross-entropy',
        optimizer: { kind: 'sgd', lr: 0.1, momentum: 0.9 },
        batchNorm,
        devices: places,
      });
      await trainer.step({ input: smallImages(ROWS), target: [0, 1, 2, 3] });
      await trainer.step({ input: smallImages(ROWS), target: [0, 1, 2, 3] });
      return trainer.stateDict();
    };
    const [ours, theirs] = [await on(devices), await on(['cpu'])];
    for (const name of ['conv1.weight', 'bn1.weight', 'bn1.running_mean', 'conv2.weight', 'fc.weight'])
      expectNear(ours.get(name)!, theirs.get(name)!, 1e-3);
  });

  it('estimates statistics', async () => {
    const on = async (device: Device): Promise<readonly number[]> => {
      const options = { mode: 'precise', devices: [device] } as const;
      const { layers } = await estimateBatchNorm(smallNet(), [smallImages(ROWS)], options);
      return layers.flatMap(({ mean, variance }) => [mean, variance].flatMap((values) => Array.from(values)));
    };
    expectNearNumbers(await on(gpu), await on('cpu'));
  });
});
