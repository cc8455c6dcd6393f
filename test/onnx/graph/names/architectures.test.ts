/** The steps of torchvision's networks, which follow from their definitions. */
import { describe, expect, it } from 'vitest';
import { IMAGE, ORDINAL_NETWORKS, stepsOf } from '../../../../src/onnx/graph/names/architectures.js';

const networks = Object.entries(ORDINAL_NETWORKS).flatMap(([count, names]) =>
  names.map((name) => [name, Number(count)] as const),
);

describe('stepsOf', () => {
  it.each(networks)('%s has %i convolutions, and steps of known kinds', (name, count) => {
    const steps = stepsOf(name);
    expect(steps.filter(({ kind }) => kind === 'conv')).toHaveLength(count);
    expect(steps.filter(({ kind }) => kind === undefined)).toEqual([]);
    const seen = new Set([IMAGE]);
    for (const { name: step, reads } of steps) {
      expect(
        reads.filter((read) => !seen.has(read)),
        step,
      ).toEqual([]);
      expect(seen.has(step), step).toBe(false);
      seen.add(step);
    }
  });

  it('says what blocks read, and the channels of mere chains', () => {
    const basic = stepsOf('resnet18').filter(({ name }) => /^layer2\.0\.(?:downsample|add)/.test(name));
    expect(basic.map(({ name, reads }) => [name].concat(reads))).toEqual([
      ['layer2.0.downsample.0', 'layer1.1.relu_1'],
      ['layer2.0.downsample.1', 'layer2.0.downsample.0'],
      ['layer2.0.add', 'layer2.0.bn2', 'layer2.0.downsample.1'],
    ]);
    const dense = stepsOf('densenet121').filter(({ name }) => name.endsWith('denseblock1.denselayer1.cat'));
    expect(dense).toMatchObject([{ kind: 'pass', reads: ['features.pool0'] }]);
    expect(stepsOf('resnet18')[0]).toMatchObject({ name: 'conv1', kernel: 7, channels: undefined });
    expect(stepsOf('alexnet')[0]).toMatchObject({ name: 'features.0', kernel: 11, channels: 64 });
  });
});
