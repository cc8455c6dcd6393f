/** Attribution: the golden maps of every method, targets, and what is refused. */
import { createFeatureExtractor, openModel, type Tensor } from 'onnx-tapir';
import { attribute, createAttribution, type AttributionTarget } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { smoothGradients } from '../../../src/products/explain/input-gradients.js';
import { sharedNote, tinyResNet } from '../../support/fixtures.js';
import { withMetadata } from '../../support/graphs.js';
import { isRelease } from '../../support/rounds.js';
import {
  decode,
  expectClose,
  hasTraining,
  readTraining,
  summaryDifference,
  trainingPath,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';

interface MapCase {
  readonly raw: StoredTensor;
  readonly normalised: StoredTensor;
  readonly final: StoredTensor | Summary;
  readonly drift: number;
}
interface InputMap {
  readonly value?: StoredTensor;
  readonly summary: Summary;
  /** Not stated for squares and variances. */
  readonly drift?: number;
}
interface AttributionCase {
  readonly input: StoredTensor;
  readonly classes: readonly number[];
  readonly noise: StoredTensor;
  readonly inputMaps: Readonly<Record<string, InputMap>>;
  readonly layers: Readonly<
    Record<
      string,
      {
        readonly tensors: Readonly<Record<string, readonly string[]>>;
        readonly maps: Readonly<Record<string, MapCase>>;
      }
    >
  >;
}
interface ModelFiles {
  readonly files: readonly { readonly file: string; readonly exporter: string }[];
}

const EXPORTERS = ['ts-unfolded', 'ts-folded', 'dynamo'];
const METHODS = {
  gradcam: 'grad-cam',
  'gradcam++': 'grad-cam++',
  xgradcam: 'xgrad-cam',
  hirescam: 'hires-cam',
  layercam: 'layer-cam',
  eigencam: 'eigen-cam',
  scorecam: 'score-cam',
} as const;
const RULES = ['gausslegendre', 'middle', 'trapezoid', 'left', 'right'] as const;

const relativeTo = (drift = 0): number => Math.max(1e-5, 10 * drift);

// A suite that does not run is collected all the same, so it must not read what is not there.
const CASES = hasTraining ? ['resnet-basic', 'vit'] : [];

describe.skipIf(!hasTraining)(`golden maps${sharedNote}`, () => {
  describe.each(CASES)('%s', (id) => {
    const golden = readTraining<AttributionCase>(`attribution/${id}.json`);
    const { files } = readTraining<ModelFiles>(`models/${id}.json`);
    const image = decode(golden.input);
    const target = golden.classes;

    // The file of a check has every method; the others differ in how they name a layer.
    describe.each(isRelease ? EXPORTERS : ['ts-folded'])('%s', (exporter) => {
      const path = trainingPath(`models/${files.find((file) => file.exporter === exporter)!.file}`);

      it.each(Object.keys(golden.layers))('%s: every class activation map', async (name) => {
        const { tensors, maps } = golden.layers[name]!;
        for (const [key, expected] of Object.entries(maps)) {
          const method = METHODS[key as keyof typeof METHODS];
          // The methods differ in what the host computes: all of them run on one file, and two on the others.
          if (exporter !== 'ts-folded' && method !== 'grad-cam' && method !== 'hires-cam') continue;
          const layer = `tensor:${tensors[exporter]![0]!}`;
          const result = await attribute(path, image, { method, layer, target });
          const what = `${method} ${name}`;
          if (method === 'eigen-cam') {
            // Each row has its own sign.
            for (let row = 0; row < target.length; row++) expectRow(result.map, expected, row, what);
            continue;
          }
          expectClose(what, result.map, expected.raw, relativeTo(expected.drift));
          expectClose(`${what} normalised`, result.normalised, expected.normalised, 0, 1e-4);
          if ('data' in expected.final) expectClose(`${what} final`, result.heatmap, expected.final, 0, 1e-4);
          else expect(summaryDifference(result.heatmap, expected.final), what).toBeLessThanOrEqual(1e-4);
        }
      });

      it('every map of the pixels', async () => {
        const { gradient, 'saliency-max': saliency, 'input-x-gradient': product } = golden.inputMaps;
        const slopes = await attribute(path, image, { method: 'saliency', target });
        expectInput('gradient', slopes.values!, gradient!);
        expectInput('saliency', slopes.map, saliency!);
        const products = await attribute(path, image, { method: 'input-x-gradient', target });
        expectInput('input-x-gradient', products.values!, product!);
        for (const baseline of ['zero', 'mean'] as const)
          for (const rule of exporter === 'ts-folded' ? RULES : RULES.slice(0, 1)) {
            const options = { method: 'integrated-gradients', baseline, rule, steps: 20, target } as const;
            const { values } = await attribute(path, image, options);
            const name = `integrated-gradients/${baseline}/${rule}`;
            expectInput(name, values!, golden.inputMaps[name]!);
          }
      });

      it.each([
        ['smooth-grad', 'smoothgrad'],
        ['smooth-grad-squared', 'smoothgrad-squared'],
        ['var-grad', 'vargrad'],
      ] as const)('%s, with the noise of the fixture', async (method, name) => {
        await using saliency = await createAttribution(path, { method: 'saliency' });
        const gradientAt = async (data: Float32Array): Promise<Float32Array> =>
          (await saliency.run({ ...image, data }, { target })).values!.data;
        const [rows, channels, height, width] = image.dims as [number, number, number, number];
        const maps = {
          rows,
          channels,
          size: [height, width],
          data: image.data as Float32Array,
          prefix: 0,
        } as const;
        const noise = decode(golden.noise).data as Float32Array;
        const parts = Array.from({ length: golden.noise.shape[0]! }, (_, i) =>
          noise.subarray(i * maps.data.length, (i + 1) * maps.data.length),
        );
        const data = await smoothGradients(method, maps, parts, gradientAt);
        expectInput(name, { dtype: 'float32', dims: image.dims, data }, golden.inputMaps[name]!);
      });
    });
  });
});

/** Expects one row of a map whose sign is arbitrary. */
function expectRow(map: Tensor<'float32'>, { raw, drift }: MapCase, row: number, what: string): void {
  const size = raw.shape[1]! * raw.shape[2]!;
  const wanted = (decode(raw).data as Float32Array).subarray(row * size, (row + 1) * size);
  const given = map.data.subarray(row * size, (row + 1) * size);
  const sign = Math.sign(wanted.reduce((sum, value, i) => sum + value * given[i]!, 0));
  const largest = Math.max(...wanted.map(Math.abs));
  const worst = Math.max(...wanted.map((value, i) => Math.abs(sign * given[i]! - value)));
  expect(worst, `${what}, row ${row}`).toBeLessThanOrEqual(relativeTo(drift) * largest);
}

function expectInput(what: string, actual: Tensor, { value, summary, drift }: InputMap): void {
  if (value) expectClose(what, actual, value, relativeTo(drift), 1e-7);
  expect(summaryDifference(actual, summary), what).toBeLessThanOrEqual(
    relativeTo(drift) * summary.maxAbs + 1e-7,
  );
}

describe('targets and batches', () => {
  const model = tinyResNet();
  const batch: Tensor<'float32'> = {
    dtype: 'float32',
    dims: [3, 3, 64, 64],
    data: Float32Array.from({ length: 3 * 3 * 64 * 64 }, (_, i) => Math.sin(i * 0.37) + Math.cos(i / 4096)),
  };

  it('Grad-CAM in front of global pooling and one linear layer is the layer under its weights', async () => {
    const weights = Float32Array.from({ length: 10 * 128 }, (_, i) => Math.sin(i));
    const opened = await openModel(model);
    const known = await opened.withParameters({ 'fc.weight': { dims: [10, 128], data: weights } });
    const target = [1, 4, 9];
    const { map, normalised, heatmap } = await attribute(known, batch, { layer: 'layer4', target });
    await using extractor = await createFeatureExtractor(known, ['layer4']);
    const { layer4 } = await extractor.run(batch);
    const [, channels, height, width] = layer4.dims as [number, number, number, number];
    expect(channels).toBe(128);
    const places = height * width;
    expect(map.dims).toEqual([3, height, width]);
    for (const [row, index] of target.entries())
      for (let i = 0; i < places; i++) {
        let sum = 0;
        for (let c = 0; c < channels; c++)
          sum +=
            (weights[index * channels + c]! *
              (layer4.data as Float32Array)[(row * channels + c) * places + i]!) /
            places;
        expect(map.data[row * places + i]).toBeCloseTo(sum, 5);
      }
    expect(normalised.dims).toEqual(map.dims);
    expect(heatmap.dims).toEqual([3, 64, 64]);
    expect(Math.max(...heatmap.data)).toBeLessThanOrEqual(1);
  });

  it('a target is the prediction, a class, a class per row, or a function', async () => {
    await using extractor = await createFeatureExtractor(model, { 'tensor:output': 'logits' });
    const { logits } = await extractor.run(batch);
    const scores = logits.data as Float32Array;
    const best = [0, 1, 2].map((row) => {
      const own = [...scores.subarray(row * 10, row * 10 + 10)];
      return own.indexOf(Math.max(...own));
    });
    await using saliency = await createAttribution(model, { method: 'saliency' });
    const predicted = await saliency.run(batch);
    expect(predicted.classes).toEqual(best);
    const run = (target: AttributionTarget): ReturnType<typeof saliency.run> =>
      saliency.run(batch, { target });
    expect((await run(best)).map.data).toEqual(predicted.map.data);
    const [four, seven] = [await run(4), await run([7, 7, 7])];
    expect(four.classes).toEqual([4, 4, 4]);
    expect(four.scores[1]).toBeCloseTo(scores[14]!, 5);
    const difference = await run((row) => row.map((_, k) => (k === 4 ? 1 : k === 7 ? -1 : 0)));
    expect(difference.scores[2]).toBeCloseTo(four.scores[2]! - seven.scores[2]!, 5);
    for (const i of [0, 5000, 20_000])
      expect(difference.values!.data[i]).toBeCloseTo(four.values!.data[i]! - seven.values!.data[i]!, 6);
  });

  it('a target is a label: of the metadata, or of the option', async () => {
    const labels = Array.from({ length: 10 }, (_, i) => `thing ${i % 9}`);
    const labelled = withMetadata(model, { labels: JSON.stringify(labels) });
    await using saliency = await createAttribution(labelled, { method: 'saliency' });
    expect(saliency.labels).toEqual(labels);
    const result = await saliency.run(batch, { target: ['thing 3', 1, 'thing 8'] });
    expect(result).toMatchObject({ classes: [3, 1, 8], labels: ['thing 3', 'thing 1', 'thing 8'] });
    const given = labels.map((_, i) => `other ${i}`);
    const options = { method: 'saliency', labels: given, target: 'other 5' } as const;
    expect(await attribute(labelled, batch, options)).toMatchObject({ classes: [5, 5, 5] });
    await expect(saliency.run(batch, { target: 'thnig 3' })).rejects.toThrow(
      'option "target" must be one of the 10 labels; nearest are "thing 3"',
    );
    await expect(saliency.run(batch, { target: 'thing 0' })).rejects.toThrow(
      'classes 0 and 9 have one label',
    );
  });

  it('a label needs labels that fit the classes', async () => {
    const few = withMetadata(model, { names: `{0: 'cat', 1: 'dog'}` });
    const options = { method: 'saliency' } as const;
    await expect(attribute(few, batch, { ...options, target: 'cat' })).rejects.toThrow(
      'its metadata has 2 labels for 10 classes',
    );
    expect(await attribute(few, batch, { ...options, target: 1 })).toMatchObject({
      labels: [null, null, null],
    });
    await expect(attribute(model, batch, { ...options, target: 'cat' })).rejects.toThrow('no labels');
    await expect(attribute(model, batch, { ...options, labels: ['cat'], target: 0 })).rejects.toThrow(
      'option "labels" must be a list of 10 texts',
    );
  });

  it('each row has its own map, also on several devices', async () => {
    const rows = 64 * 64 * 3;
    const [device, devices] = ['cpu', ['cpu:0', 'cpu:1']] as const;
    const options = { method: 'layer-cam', layer: 'layer3' } as const;
    const whole = await attribute(model, batch, { ...options, device, target: 2 });
    const split = await attribute(model, batch, { ...options, devices, target: 2 });
    const last = { ...batch, dims: [1, 3, 64, 64], data: batch.data.subarray(2 * rows) };
    const alone = await attribute(model, last, { ...options, target: 2 });
    const size = alone.map.data.length;
    for (let i = 0; i < size; i++) {
      expect(whole.map.data[2 * size + i]).toBeCloseTo(alone.map.data[i]!, 6);
      expect(split.map.data[2 * size + i]).toBeCloseTo(alone.map.data[i]!, 6);
    }
  });

  it('integrated gradients add up to the score less that of the baseline', async () => {
    const options = { method: 'integrated-gradients', steps: 64, target: 3 } as const;
    const { map, scores } = await attribute(model, batch, options);
    const zeros = { ...batch, data: new Float32Array(batch.data.length) };
    const base = await attribute(model, zeros, { method: 'saliency', target: 3 });
    for (const row of [0, 1, 2]) {
      const sum = map.data.subarray(row * 4096, (row + 1) * 4096).reduce((total, value) => total + value, 0);
      const wanted = scores[row]! - base.scores[row]!;
      expect(Math.abs(sum - wanted)).toBeLessThan(0.05 * Math.abs(wanted) + 1e-3);
    }
  });

  it('the noise of smooth gradients comes from the seed', async () => {
    const run = (seed: number, noise = 0.15): ReturnType<typeof attribute> =>
      attribute(model, batch, { method: 'smooth-grad', samples: 2, seed, noise, target: 0 });
    const first = await run(1);
    expect((await run(1)).map.data).toEqual(first.map.data);
    expect((await run(2)).map.data).not.toEqual(first.map.data);
    const plain = await attribute(model, batch, { method: 'saliency', target: 0 });
    expect((await run(1, 0)).map.data).toEqual(plain.map.data);
  });

  it('the variance of gradients is the mean of the squares less the square of the mean', async () => {
    const options = { samples: 3, seed: 5, target: 0 } as const;
    const [mean, squares, variance] = [
      await attribute(model, batch, { ...options, method: 'smooth-grad' }),
      await attribute(model, batch, { ...options, method: 'smooth-grad-squared' }),
      await attribute(model, batch, { ...options, method: 'var-grad' }),
    ];
    const largest = Math.max(...squares.map.data);
    expect(largest).toBeGreaterThan(0);
    for (const [i, value] of variance.values!.data.entries()) {
      const expected = squares.values!.data[i]! - mean.values!.data[i]! ** 2;
      expect(Math.abs(value - expected)).toBeLessThan(1e-6 * largest);
    }
  });

  it('Score-CAM gives the same map in batches of any size', async () => {
    const options = { method: 'score-cam', layer: 'layer4', target: 1 } as const;
    const one = await attribute(model, batch, { ...options, batch: 1 });
    const many = await attribute(model, batch, { ...options, batch: 5 });
    for (const [i, value] of one.map.data.entries()) expect(many.map.data[i]).toBeCloseTo(value, 5);
  });

  it('a layer without any variation has an empty map', async () => {
    const black = { ...batch, data: new Float32Array(batch.data.length) };
    const { heatmap } = await attribute(model, black, { method: 'eigen-cam', layer: 'layer4' });
    expect(heatmap.data.every((value) => value >= 0 && value <= 1)).toBe(true);
  });

  it.each<[string, object, object]>([
    ['another method', { method: 'guided' }, {}],
    ['a layer for pixels', { method: 'saliency', layer: 'layer4' }, {}],
    ['one step', { method: 'integrated-gradients', steps: 1 }, {}],
    ['another option', { methods: [] }, {}],
    ['labels that are no list', { method: 'saliency', labels: 'cat' }, {}],
    ['a class out of range', { layer: 'layer4' }, { target: 10 }],
    ['half a class', { layer: 'layer4' }, { target: 1.5 }],
    ['a list of another length', { layer: 'layer4' }, { target: [1, 2] }],
    ['a function of another length', { layer: 'layer4' }, { target: () => [1] }],
    [
      'a function that gives NaN',
      { layer: 'layer4' },
      { target: () => Array.from({ length: 10 }, () => NaN) },
    ],
  ])('refuses %s', async (_, options, run) => {
    await expect(attribute(model, batch, { ...options, ...run })).rejects.toMatchObject({
      name: 'TapirError',
      code: 'OPTION_INVALID',
    });
  });

  it('refuses a layer that is no map, and an output that is no logits', async () => {
    await expect(attribute(model, batch, { layer: 'flatten' })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
    });
    const options = { method: 'saliency', output: 'layer4' } as const;
    await expect(attribute(model, batch, options)).rejects.toMatchObject({ code: 'OUTPUT_MISFIT' });
  });

  it('refuses runs after it was closed', async () => {
    const cam = await createAttribution(model, { layer: 'layer4' });
    await cam.close();
    await cam.close();
    await expect(cam.run(batch)).rejects.toMatchObject({ code: 'CLOSED' });
  });
});
