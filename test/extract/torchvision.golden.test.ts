/** Features of real torchvision exports against torch's own numbers, and pruned against full graphs. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel, pruneModel, type Tensor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { sharedFixtures, sharedNote } from '../support/fixtures.js';

interface Reference {
  readonly input: { readonly shape: readonly number[]; readonly sha256: string };
  readonly output: readonly string[];
  readonly batch: string;
  readonly nodes: readonly {
    readonly path: string;
    readonly tensor: string | null;
    readonly shape?: readonly number[];
    readonly mean: number;
    readonly std: number;
    readonly l2: number;
    readonly min: number;
    readonly max: number;
    readonly samples: { readonly index: readonly number[]; readonly value: readonly number[] };
  }[];
}

/** The reference input of fixtures/torchvision/README.md: MurmurHash3's finaliser over pixels and blocks. */
function referenceInput(): Float32Array {
  const hash = (index: number): number => {
    let h = index | 0;
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  };
  return Float32Array.from({ length: 2 * 3 * 224 * 224 }, (_, i) => {
    const [x, y, plane] = [i % 224, Math.floor(i / 224) % 224, Math.floor(i / 50176)];
    const block = (plane * 7 + (y >> 5)) * 7 + (x >> 5);
    return Math.fround((hash(i) / 2 ** 32 - 0.5) * 2 + (hash(block + 1000003) / 2 ** 32 - 0.5) * 3);
  });
}

const folder = sharedFixtures === undefined ? '' : join(sharedFixtures, 'torchvision');
const names =
  sharedFixtures === undefined ? ['none'] : readdirSync(folder).filter((file) => file.endsWith('.json'));
const data = referenceInput();

function expectClose(actual: Tensor, node: Reference['nodes'][number]): void {
  const scale = Math.max(Math.abs(node.min), Math.abs(node.max));
  const values = actual.data as Float32Array;
  expect(actual.dims, node.path).toEqual(node.shape);
  let [sum, squares] = [0, 0];
  for (const value of values) {
    sum += value;
    squares += value * value;
  }
  const mean = sum / values.length;
  expect(Math.abs(mean - node.mean), node.path).toBeLessThanOrEqual(1e-4 * scale);
  expect(Math.abs(Math.sqrt(squares) - node.l2), node.path).toBeLessThanOrEqual(1e-4 * node.l2);
  const worst = node.samples.index.reduce(
    (max, index, i) => Math.max(max, Math.abs(values[index]! - node.samples.value[i]!)),
    0,
  );
  expect(worst, node.path).toBeLessThanOrEqual(1e-3 * scale);
}

describe.skipIf(sharedFixtures === undefined)(`torchvision's numbers${sharedNote}`, () => {
  it('are of the input that is made here', () => {
    const { sha256 } = readReference(names[0]!).input;
    expect(createHash('sha256').update(new Uint8Array(data.buffer)).digest('hex')).toBe(sha256);
  });

  it.each(names)('%s: every container and leaf', async (name) => {
    const reference = readReference(name);
    const model = await openModel(join(folder, name.replace('.json', '.onnx')));
    const present = reference.nodes.filter((node) => node.tensor !== null && node.shape !== undefined);
    expect(present.length).toBeGreaterThan(30);
    const input = { dtype: 'float32', dims: [2, 3, 224, 224], data };
    for (let start = 0; start < present.length; start += 24) {
      const some = present.slice(start, start + 24);
      const extractor = await createFeatureExtractor(
        model,
        some.map((node) => node.path),
      );
      const results = await extractor.run(input);
      await extractor.close();
      for (const node of some) expectClose(results[node.path]!, node);
    }
    for (const node of reference.nodes.filter((item) => item.tensor === null)) {
      await expect(pruneModel(model, [node.path]), node.path).rejects.toMatchObject({ code: 'NAME_FOLDED' });
    }
  });

  it('pruned and full ResNet-50 agree bit for bit without optimisation', async () => {
    const model = await openModel(join(folder, 'resnet50.ts.onnx'));
    const options = {
      session: { graphOptimizationLevel: 'disabled' },
      device: { type: 'cpu', threads: 1 },
    } as const;
    const input = { dtype: 'float32', dims: [1, 3, 224, 224], data: data.subarray(0, data.length / 2) };
    const taps = ['layer1', 'layer2.0.downsample', 'layer4', 'avgpool'];
    const full = await createFeatureExtractor(model, [...taps, 'fc'], options);
    const expected = await full.run(input);
    await full.close();
    for (const tap of taps) {
      const cut = await createFeatureExtractor(model, [tap], options);
      const actual = await cut.run(input);
      await cut.close();
      expect(Buffer.compare(bytesOf(actual[tap]!), bytesOf(expected[tap]!)), tap).toBe(0);
    }
  });

  it('layer1 of ResNet-50 keeps its 225,344 parameters, less what folding removed', async () => {
    const pruned = await pruneModel(join(folder, 'resnet50.ts.onnx'), ['layer1']);
    const { kept } = pruned.plan;
    // 11 convolutions and as many BatchNorms, whose scales are folded into the weights: biases remain.
    const batchNormScales = 64 + 3 * (64 + 64 + 256) + 256;
    expect(kept.bytes).toBeGreaterThan(4 * (225_344 - batchNormScales));
    expect(kept.bytes).toBeLessThan(4 * 225_344 + 10_000);
    expect((await pruned.bytes()).byteLength).toBe(kept.bytes);
  });
});

function readReference(name: string): Reference {
  return JSON.parse(readFileSync(join(folder, name), 'utf8')) as Reference;
}

function bytesOf(tensor: Tensor): Uint8Array {
  const values = tensor.data as Float32Array;
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
