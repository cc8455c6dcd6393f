/** Statistics from photos: the same as from the tensors that their transform gives; measured, saved and merged. */
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTransform, loadImage, openModel, type Tensor } from 'onnx-tapir';
import {
  estimateBatchNorm,
  measureMoments,
  mergeBatchNorm,
  type BatchNormMode,
  type BatchNormMoments,
} from 'onnx-tapir/train';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../../support/fixtures.js';
import { momentsOf, rows, twoNorms } from '../../../support/norm-graphs.js';
import { copyPhotos } from '../../../support/photos.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
mkdirSync(photos);
copyPhotos(photos);
const file = join(scratch, 'model.onnx');
writeFileSync(file, twoNorms(['n', 3, 24, 24]));
const options = { resize: 24, crop: 24 } as const;
const transform = createTransform(options);
const files = readdirSync(photos, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(jpg|png|webp|gif|bmp|tiff?|avif)$/i.test(name))
  .map((name) => join(photos, name));

describe('photos', () => {
  it('give what their tensors give, and those that cannot be read are listed', async () => {
    const broken = join(photos, 'zero.jpg');
    writeFileSync(broken, '');
    const found = await estimateBatchNorm(file, photos, { mode: 'adabn', transform, batch: 5 });
    renameSync(broken, join(scratch, 'zero.jpg'));
    expect(found.failures).toMatchObject([{ path: 'zero.jpg', error: { code: 'IMAGE_EMPTY' } }]);
    const images = await Promise.all(
      files.map(async (path) => (await loadImage(path, transform)).toTensor()),
    );
    const expected = momentsOf(images as Tensor<'float32'>[]);
    expect(found.layers[0]!.count).toBe(expected.count);
    expected.mean.forEach((value, c) => expect(found.layers[0]!.mean[c]).toBeCloseTo(value, 5));
    expected.variance.forEach((value, c) => expect(found.layers[0]!.variance[c]).toBeCloseTo(value, 5));
    const listed = await estimateBatchNorm(file, files, { mode: 'adabn', transform });
    expect(listed.layers[0]!.mean[0]).toBeCloseTo(expected.mean[0]!, 5);
  });

  it('are held back by no barrier, and stop with the signal', async () => {
    for (const mode of ['synced', 'adabn-sequential'] as const) {
      const { layers } = await estimateBatchNorm(file, photos, { mode, transform, batch: 2 });
      expect(layers[0]!.count).toBe(files.length * 24 * 24);
    }
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(estimateBatchNorm(file, photos, { mode: 'adabn', transform, signal })).rejects.toThrow(
      'enough',
    );
  });

  it('are refused if they do not fit the model, or if there are none', async () => {
    await expect(estimateBatchNorm(file, photos, { mode: 'adabn' })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'transform' },
    });
    await expect(
      estimateBatchNorm(file, join(photos, 'nowhere'), { mode: 'adabn', transform }),
    ).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
    });
  });
});

describe('moments of several processes', () => {
  const parts = [0, 1, 2].map((seed) => rows([2 + seed, 3, 24, 24], seed));
  const measure = async (mode: BatchNormMode): Promise<BatchNormMoments[]> => {
    const runs = await Promise.all(parts.map((part) => estimateBatchNorm(file, [part], { mode })));
    // As from a file.
    return runs.map(({ moments }) => JSON.parse(JSON.stringify(moments)) as BatchNormMoments);
  };

  it.each(['adabn', 'precise'] as const)('add up to those of one: %s', async (mode) => {
    const merged = await mergeBatchNorm(file, await measure(mode));
    const whole = await estimateBatchNorm(file, parts, { mode });
    for (const [i, { name, count, mean, variance }] of merged.layers.entries()) {
      const expected = whole.layers[i]!;
      expect([name, count]).toEqual([expected.name, expected.count]);
      mean.forEach((value, c) => expect(value).toBeCloseTo(expected.mean[c]!, 12));
      variance.forEach((value, c) => expect(value).toBeCloseTo(expected.variance[c]!, 12));
    }
    const [a, b, c] = await measure(mode);
    const inSteps = await mergeBatchNorm(file, [(await mergeBatchNorm(file, [a!, b!])).moments, c!]);
    expect(inSteps.layers[1]!.mean[0]).toBeCloseTo(merged.layers[1]!.mean[0]!, 12);
  });

  it.each(['synced', 'momentum', 'device0', 'adabn-sequential'] as const)('are refused: %s', async (mode) => {
    await expect(mergeBatchNorm(file, await measure(mode))).rejects.toMatchObject({
      code: 'MOMENTS_INVALID',
      message: expect.stringMatching(/cannot be merged: .+; use mode/),
    });
  });

  it('are refused if they are of another model or mode, damaged, or none', async () => {
    const [first] = await measure('adabn');
    const [precise] = await measure('precise');
    const damaged = {
      ...first!,
      layers: [{ ...first!.layers[0]!, variance: [-1, 0, 0] }, first!.layers[1]!],
    };
    const short = { ...first!, layers: first!.layers.slice(1) };
    for (const given of [[], [first!, precise!], [damaged], [short], [{ ...first!, format: 'other' }]])
      await expect(mergeBatchNorm(file, given as BatchNormMoments[])).rejects.toMatchObject({
        code: 'MOMENTS_INVALID',
      });
    await expect(mergeBatchNorm(file, [null] as never)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(mergeBatchNorm(twoNorms(['n', 3, 8, 8]), [first!])).rejects.toMatchObject({
      code: 'MOMENTS_INVALID',
    });
  });

  it('of the present statistics are measured without a new model', async () => {
    const { moments, failures } = await measureMoments(file, parts, { devices: ['cpu:0', 'cpu:1'] });
    expect(failures).toEqual([]);
    const expected = momentsOf(parts);
    expect(moments.layers[0]!.count).toBe(expected.count);
    expected.variance.forEach((value, c) => expect(moments.layers[0]!.variance[c]).toBeCloseTo(value, 4));
  });
});

describe('tapir models bn', () => {
  const json = JSON.stringify(options);

  it('writes the model that estimateBatchNorm gives, and merges', async () => {
    const out = join(scratch, 'out.onnx');
    const saved = join(scratch, 'moments.json');
    const args = [
      'models',
      'bn',
      file,
      photos,
      '--mode',
      'adabn',
      '--transform',
      json,
      '--devices',
      'cpu:0,cpu:1',
      '-o',
      out,
      '--moments',
      saved,
    ];
    const run = await runTapir(args);
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/written: .*2 norms, mode adabn/) });
    const { model, moments } = await estimateBatchNorm(file, photos, {
      mode: 'adabn',
      transform,
      devices: ['cpu:0', 'cpu:1'],
    });
    expect(JSON.parse(readFileSync(saved, 'utf8'))).toEqual(moments);
    const read = async (one: typeof model) =>
      Promise.all(one.namedParameters().map((parameter) => parameter.read()));
    expect(await read(await openModel(out))).toEqual(await read(model));
    expect(await runTapir(args)).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('exists already'),
    });
    // As after a kill between the two files.
    const whole = readFileSync(out);
    rmSync(out);
    expect(await runTapir(args)).toMatchObject({ code: 0 });
    expect(readFileSync(out)).toEqual(whole);
    const merged = await runTapir([
      'models',
      'bn',
      'merge',
      file,
      saved,
      saved,
      '-o',
      out,
      '--overwrite',
      '--json',
    ]);
    expect(merged.code).toBe(0);
    expect((JSON.parse(merged.stdout) as { layers: { count: number }[] }).layers[0]!.count).toBe(
      2 * moments.layers[0]!.count,
    );
  });

  it('measures moments without a mode, and refuses what would be lost', async () => {
    const saved = join(scratch, 'source.json');
    writeFileSync(join(photos, 'zero.jpg'), '');
    const run = await runTapir(['models', 'bn', file, photos, '--transform', json, '--moments', saved]);
    expect(run).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('1 photo left out, which could not be read'),
    });
    expect((JSON.parse(readFileSync(saved, 'utf8')) as BatchNormMoments).mode).toBe('adabn');
    expect(await runTapir(['models', 'bn', file, photos])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--out'),
    });
    expect(await runTapir(['models', 'bn', file, photos, '-o', join(scratch, 'x.onnx')])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--mode'),
    });
    expect(
      await runTapir(['models', 'bn', 'merge', file, file, '-o', join(scratch, 'x.onnx')]),
    ).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('MOMENTS_INVALID'),
    });
  });
});
