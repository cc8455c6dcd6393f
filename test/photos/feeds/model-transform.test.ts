/** What is assumed of a model's pixels, what its file contradicts, and what of that is written down. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  openDataset,
  type TransformLike,
} from 'onnx-tapir';
import { trainProbe } from 'onnx-tapir/features';
import { writeReport } from 'onnx-tapir/pages';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { planFeeds } from '../../../src/photos/feeds/plan-feeds.js';
import { chooseModelTransform } from '../../../src/photos/feeds/model-transform.js';
import { openModel as openHere } from '../../../src/run/model/open/open-model.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes, withMetadata, type NodeSpec, type WeightSpec } from '../../support/graphs.js';
import { runTapir } from '../../support/run.js';

type Dims = readonly (number | string)[];

/** A model that computes the mean of its pixels, behind some nodes. */
function model(
  dims: Dims,
  nodes: readonly NodeSpec[] = [],
  initializers: Readonly<Record<string, WeightSpec>> = {},
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const last = nodes.at(-1)?.outputs[0] ?? 'pixels';
  const bytes = modelBytes({
    inputs: [{ name: 'pixels', dims }],
    outputs: [{ name: 'f', dims: ['N', 'C', 1, 1] }],
    nodes: [...nodes, { op: 'GlobalAveragePool', inputs: [last], outputs: ['f'] }],
    initializers,
  });
  return withMetadata(bytes, metadata);
}

const NCHW: Dims = ['N', 3, 224, 224];
const op = (name: string, from: string, to: string, ...others: string[]): NodeSpec => ({
  op: name,
  inputs: [from, ...others],
  outputs: [to],
});
const scalar = (value: number): WeightSpec => ({ dims: [], values: [value] });
const perChannel = (...values: number[]): WeightSpec => ({ dims: [1, 3, 1, 1], values });

const choose = async (bytes: Uint8Array): Promise<ReturnType<typeof chooseModelTransform>> =>
  chooseModelTransform('auto', await openHere(bytes));

describe('a model without a configuration', () => {
  it.each<[string, Uint8Array]>([
    ['NCHW of 224', model(NCHW)],
    ['open sizes', model(['N', 3, 'H', 'W'])],
    [
      'a ResNet of torchvision',
      buildResNet(0, { blocks: [2, 2, 2, 2], width: 64, size: 224, classes: 10 }).bytes,
    ],
    // torchvision's GoogLeNet changes ImageNet's numbers to others.
    [
      'a scale that fits neither bytes nor shares',
      model(NCHW, [op('Mul', 'pixels', 'a', 'w'), op('Add', 'a', 'b', 'c')], {
        w: perChannel(0.458, 0.448, 0.45),
        c: perChannel(-0.03, -0.088, -0.188),
      }),
    ],
    ['a factor of one', model(NCHW, [op('Mul', 'pixels', 'a', 'w')], { w: scalar(1) })],
    [
      'a position that is added',
      model(NCHW, [op('Add', 'pixels', 'a', 'w')], {
        w: { dims: [3, 224, 224], values: Array.from({ length: 3 * 224 * 224 }, () => 1) },
      }),
    ],
  ])('is taken for one of ImageNet, and that is marked: %s', async (_, bytes) => {
    expect(await choose(bytes)).toMatchObject({ preset: 'ImageNet1K_V1', assumed: true });
  });

  it.each(['image_embeds', 'pooler_output'])(
    'is refused with an output of transformers, "%s", whose models have pixels of their own',
    async (output) => {
      const bytes = modelBytes({
        inputs: [{ name: 'pixel_values', dims: ['N', 3, 224, 224] }],
        outputs: [{ name: output, dims: ['N', 3, 1, 1] }],
        nodes: [{ op: 'GlobalAveragePool', inputs: ['pixel_values'], outputs: [output] }],
      });
      await expect(choose(bytes)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringContaining(
          `its output "${output}" is that of a model of transformers, whose preprocessor_config.json is missing beside it`,
        ),
      });
    },
  );

  it('is not assumed where it is stated', async () => {
    const opened = await openHere(model(NCHW));
    expect(chooseModelTransform('ImageNet1K_V1', opened).assumed).toBe(false);
    expect(chooseModelTransform({ crop: 224 }, opened).assumed).toBe(false);
    const assumed = chooseModelTransform('auto', opened);
    expect(assumed.with({ decode: 'fast' }).assumed).toBe(true);
  });

  const bn = {
    scale: [1, 1, 1],
    offset: [0, 0, 0],
    mean: [123.7, 116.8, 103.9],
    variance: [3409, 3260, 3291],
  };
  it.each<[string, Uint8Array, RegExp, object]>([
    [
      'mean and deviation of shares',
      model(NCHW, [op('Sub', 'pixels', 'a', 'm'), op('Div', 'a', 'b', 's')], {
        m: perChannel(0.485, 0.456, 0.406),
        s: perChannel(0.229, 0.224, 0.225),
      }),
      /normalises its input itself \(Sub, Div\)/,
      { scale: 1 / 255, mean: null, std: null },
    ],
    [
      'mean and deviation of bytes',
      model(NCHW, [op('Sub', 'pixels', 'a', 'm'), op('Mul', 'a', 'b', 's')], {
        m: scalar(127.5),
        s: scalar(1 / 128),
      }),
      /itself \(Sub, Mul\)/,
      { scale: 1, mean: null, std: null },
    ],
    [
      'a division by 255 in a Constant',
      model(NCHW, [
        { op: 'Constant', outputs: ['k'], tensors: { value: scalar(255) } },
        op('Div', 'pixels', 'a', 'k'),
      ]),
      /itself \(Div\)/,
      { scale: 1, mean: null, std: null },
    ],
    [
      'a norm of bytes',
      model(NCHW, [op('BatchNormalization', 'pixels', 'a', 'scale', 'offset', 'mean', 'variance')], bn),
      /itself \(BatchNormalization\)/,
      { scale: 1, mean: null, std: null },
    ],
    [
      'values from -1 to 1, behind a cast',
      model(NCHW, [op('Identity', 'pixels', 'i'), op('Mul', 'i', 'a', 'two'), op('Sub', 'a', 'b', 'one')], {
        two: scalar(2),
        one: scalar(1),
      }),
      /itself \(Mul, Sub\)/,
      { scale: 1 / 255, mean: null, std: null },
    ],
    ['channels last', model(['N', 'H', 'W', 3]), /channels come last/, { mean: [0.5, 0.5, 0.5] }],
    ['another size', model(['N', 3, 240, 320]), /takes 240 × 320/, { crop: { height: 240, width: 320 } }],
    [
      'one channel',
      model(['N', 1, 64, 128]),
      /one channel.*takes 64 × 128/,
      { channelOrder: 'grey', mean: [0.5] },
    ],
    [
      'a detector of Ultralytics',
      model(['N', 3, 320, 320], [], {}, { author: 'Ultralytics', task: 'detect' }),
      /Ultralytics wrote it/,
      { resize: { fit: 'inside', height: 320, width: 320 }, fill: 114, mean: null },
    ],
    [
      'a classifier of Ultralytics',
      model(NCHW, [], {}, { author: 'Ultralytics', task: 'classify' }),
      /Ultralytics wrote it/,
      { resize: 224, crop: 224, mean: null },
    ],
    [
      'a classifier of Ultralytics for sides that differ',
      model(['N', 3, 64, 128], [], {}, { author: 'Ultralytics', task: 'classify' }),
      /Ultralytics wrote it/,
      { resize: { height: 64, width: 128 }, crop: { height: 64, width: 128 }, mean: null },
    ],
  ])('is refused, with a transform to paste: %s', async (_, bytes, reason, options) => {
    const error = await choose(bytes).catch((caught: unknown) => caught as Error);
    expect(error).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringMatching(reason) });
    const pasted = /--transform '(.*)'; compare/.exec((error as Error).message)![1]!;
    const opened = await openHere(bytes);
    const transform = chooseModelTransform(pasted, opened);
    expect(transform.options).toMatchObject(options);
    expect(() => planFeeds({ inputs: opened.inputs, imageNormalization: null }, transform)).not.toThrow();
  });

  it('says that four channels cannot be fed, and where they lie', async () => {
    const opened = await openHere(model([1, 320, 320, 4]));
    for (const request of ['auto', { crop: { height: 320, width: 4 } }] as const)
      expect(() =>
        planFeeds({ inputs: opened.inputs, imageNormalization: null }, chooseModelTransform(request, opened)),
      ).toThrow(/it takes 4 channels, channels last, and an image has 3/);
  });
});

describe('what was assumed', () => {
  const folder = scratchFolder();
  const file = join(folder, 'model.onnx');
  const photos = projectPath('examples/photos');
  writeFileSync(file, model(NCHW));
  const embed = async (out: string, transform?: TransformLike): Promise<Record<string, unknown>> => {
    await using extractor = await createFeatureExtractor(file, ['f']);
    await embedFolder(extractor, photos, { out, ...(transform === undefined ? {} : { transform }) });
    return JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Record<string, unknown>;
  };

  it('is in the manifest, and a run that states it goes on', async () => {
    const out = join(folder, 'stated');
    expect((await embed(out))['transform']).toMatchObject({ preset: 'ImageNet1K_V1', assumed: true });
    const stated = (await embed(out, createTransform('ImageNet1K_V1')))['transform'];
    expect(stated).toMatchObject({ preset: 'ImageNet1K_V1' });
  });

  it('is repeated by reports, probes, searches and the command', async () => {
    const out = join(folder, 'assumed');
    const ran = await runTapir(['embed', photos, '--model', file, '--return', 'f', '--out', out]);
    expect(ran.stderr).toContain('warning: ImageNet1K_V1 is assumed');
    const note = /preprocessing of this dataset was assumed \(ImageNet1K_V1\)/;
    const report = await writeReport(out, { out: join(folder, 'r.html') });
    expect(report.notes).toContainEqual(expect.stringMatching(note));
    const dataset = await openDataset(out);
    const probe = await trainProbe(dataset, 'by-folder', { kind: 'centroid', folds: 0 });
    expect(probe.warnings).toContainEqual(expect.stringMatching(note));
    const rows = dataset.rows()[Symbol.asyncIterator]();
    const { value } = (await rows.next()) as { value: { path: string } };
    const search = await runTapir(['search', out, '--path', value.path]);
    expect(search).toMatchObject({ code: 0, stderr: expect.stringMatching(note) });
    const shown = await runTapir(['search', out, join(photos, value.path), '--model', file]);
    expect(shown).toMatchObject({ code: 0, stderr: expect.stringMatching(note) });
  });
});
