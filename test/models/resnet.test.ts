import { createHash } from 'node:crypto';
import { createFeatureExtractor, embedImages, getGraphNodeNames, openModel } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet, type BuiltModel } from '../../models/resnet.js';
import { projectPath } from '../support/fixtures.js';

describe('the untrained ResNet-50', () => {
  let built: BuiltModel;
  beforeAll(() => {
    built = buildResNet();
  });

  it('has torchvision’s parameters and names, and the same bytes on every machine', async () => {
    expect(built.parameters).toBe(25_557_032);
    expect(createHash('sha256').update(built.bytes).digest('hex')).toBe(
      '497a79da94170e24cf91b9eb82cf88be01a06037eb4c513062048ee530bc3a5c',
    );
    const model = await openModel(built.bytes);
    const names = getGraphNodeNames(model);
    expect(names).toHaveLength(176);
    expect(names.slice(0, 6)).toEqual(['input', 'conv1', 'bn1', 'relu', 'maxpool', 'layer1.0.conv1']);
    expect(names.slice(-4)).toEqual(['layer4.2.relu_2', 'avgpool', 'flatten', 'fc']);
    expect(model.opsets.get('')).toBe(17);
  });

  it('keeps activations near unit size, and gives different pictures different vectors', async () => {
    const extractor = await createFeatureExtractor(built.bytes, { layer4: 'map', avgpool: 'vector' });
    const vectors: Float32Array[] = [];
    const files = ['city', 'clouds', 'dunes', 'flower'].map((name) =>
      projectPath(`examples/photos/${name}/${name}-0.jpg`),
    );
    for await (const { features } of embedImages(extractor, files)) {
      const map = features!.map.data as Float32Array;
      const rms = Math.sqrt(map.reduce((sum, value) => sum + value * value, 0) / map.length);
      expect(rms).toBeGreaterThan(0.1);
      expect(rms).toBeLessThan(10);
      vectors.push(features!.vector.data as Float32Array);
    }
    await extractor.close();
    const cosine = (a: Float32Array, b: Float32Array): number =>
      a.reduce((sum, value, i) => sum + value * b[i]!, 0) / (Math.hypot(...a) * Math.hypot(...b));
    for (const [i, a] of vectors.entries())
      for (const b of vectors.slice(i + 1)) expect(cosine(a, b)).toBeLessThan(0.97);
  });
});
