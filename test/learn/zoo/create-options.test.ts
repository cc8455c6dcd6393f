/** The options of createModel: weights in all forms, another number of classes, seeds, sizes, operator sets. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  TapirError,
  createFeatureExtractor,
  getGraphNodeNames,
  pruneModel,
  type OnnxModel,
  type Tensor,
} from 'onnx-tapir';
import { writeStateDict, type StateTensor } from 'onnx-tapir/parameters';
import { createModel, listModels } from 'onnx-tapir/zoo';
import { beforeAll, describe, expect, it } from 'vitest';
import { scanModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { failureOf } from '../../support/failure.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { readFacts, weightsOf } from '../../support/zoo.js';

const scratch = scratchFolder();
const image: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [1, 3, 64, 64],
  data: Float32Array.from({ length: 3 * 64 * 64 }, (_, i) => Math.sin(i)),
};

/** The logits of a made-up image. */
async function logitsOf(model: OnnxModel): Promise<Tensor> {
  const extractor = await createFeatureExtractor(model, { fc: 'logits' });
  const { logits } = await extractor.run(image);
  await extractor.close();
  return logits;
}

const bytesOf = async (model: OnnxModel): Promise<Uint8Array> =>
  (await pruneModel(model, ['output'])).bytes();

describe('createModel', () => {
  let state: Map<string, Tensor>;
  let expected: Tensor;
  beforeAll(async () => {
    state = new Map();
    for (const [key, tensor] of weightsOf(readFacts(fixturePath('zoo/resnet18.json.gz'))))
      state.set(key, await tensor.read());
    expected = await logitsOf(await createModel('resnet18', { weights: state }));
  });

  it('lists torchvision’s names', () => {
    expect(listModels()).toContain('resnet50');
    expect(listModels('resnet*')).toEqual(['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']);
    expect(listModels('resnet?8')).toEqual(['resnet18']);
    expect(listModels('resnet.18')).toEqual([]);
    expect(listModels('*resnet50', { task: 'segmentation' })).toEqual(['deeplabv3_resnet50', 'fcn_resnet50']);
    expect(listModels(undefined, { task: 'video' })).toHaveLength(9);
    expect(listModels('*', { task: 'detection' })).toHaveLength(12);
    expect(listModels('*', { task: 'segmentation' })).toHaveLength(6);
    expect(() => listModels('*', { task: 'flow' as never })).toThrow('task');
  });

  it('refuses names that it does not know, with the nearest', async () => {
    const error = await failureOf(createModel('resnet-18'), TapirError);
    expect(error).toMatchObject({ code: 'NAME_NOT_FOUND' });
    expect(error.message).toContain('no network is called "resnet-18"; nearest: resnet18');
  });

  it('reads weights from a file, and from a network in DataParallel', async () => {
    const path = join(scratch, 'resnet18.safetensors');
    await writeStateDict(path, state);
    expect(await logitsOf(await createModel('resnet18', { weights: path }))).toEqual(expected);
    const wrapped = new Map([...state].map(([key, tensor]) => [`module.${key}`, tensor]));
    expect(await logitsOf(await createModel('resnet18', { weights: wrapped }))).toEqual(expected);
  });

  it('takes weights without counters, of float64', async () => {
    const doubles = new Map(
      [...state]
        .filter(([, { dtype }]) => dtype === 'float32')
        .map(([key, { dims, data }]) => [
          key,
          { dtype: 'float64', dims, data: Float64Array.from(data as Float32Array) },
        ]),
    );
    expect(await logitsOf(await createModel('resnet18', { weights: doubles }))).toEqual(expected);
  });

  it('names every key that does not fit', async () => {
    const bad = new Map<string, Tensor | StateTensor>(state);
    bad.delete('bn1.weight');
    bad.set('extra.weight', state.get('fc.bias')!);
    bad.set('conv1.weight', state.get('fc.bias')!);
    const error = await failureOf(createModel('resnet18', { weights: bad }), TapirError);
    expect(error).toMatchObject({
      code: 'STATE_MISMATCH',
      details: {
        missing: ['bn1.weight'],
        unexpected: ['extra.weight'],
        misshapen: [{ key: 'conv1.weight', expected: 'float32 [64, 3, 7, 7]', actual: 'float32 [1000]' }],
      },
    });
    expect(error.message).toContain('conv1.weight is float32 [1000] and must be float32 [64, 3, 7, 7]');
  });

  it('starts the classifier again only where numClasses asks for another size', async () => {
    const other = await createModel('resnet18', { weights: state, numClasses: 7 });
    expect(other.outputs).toMatchObject([{ name: 'output', dims: ['batch', 7] }]);
    expect((await logitsOf(other)).data.some((value) => value !== 0)).toBe(true);
    const small = new Map(state);
    for (const key of ['fc.weight', 'fc.bias']) {
      const { dims, data } = state.get(key)!;
      const cut = [7, ...dims.slice(1)];
      const part = (data as Float32Array).slice(0, (data.length / 1000) * 7);
      small.set(key, { dtype: 'float32', dims: cut, data: part });
    }
    const loaded = await logitsOf(await createModel('resnet18', { weights: small, numClasses: 7 }));
    const some = (expected.data as Float32Array).slice(0, 7);
    expect(
      Math.max(...some.map((value, i) => Math.abs(value - (loaded.data as Float32Array)[i]!))),
    ).toBeLessThan(1e-4);
    const error = await failureOf(createModel('resnet18', { weights: small }), TapirError);
    expect(error).toMatchObject({ code: 'STATE_MISMATCH', details: { missing: [], unexpected: [] } });
    expect(error.message).toMatch(/: add --num-classes 7 \(in code numClasses: 7\)$/);
    small.delete('bn1.weight');
    const another = await failureOf(createModel('resnet18', { weights: small }), TapirError);
    expect(another.message).toMatch(/; give the weights of this network$/);
  });

  it('gives equal bytes for equal seeds, and others for others', async () => {
    const [a, b, c] = [
      await bytesOf(await createModel('resnet18')),
      await bytesOf(await createModel('resnet18', { seed: 0 })),
      await bytesOf(await createModel('resnet18', { seed: 1 })),
    ];
    expect(Buffer.compare(a, b)).toBe(0);
    expect(a.byteLength).toBe(c.byteLength);
    expect(Buffer.compare(a, c)).not.toBe(0);
  });

  it('leaves height and width open unless asked', async () => {
    const open = await createModel('resnet18');
    expect(open.inputs).toMatchObject([{ name: 'input', dims: ['batch', 3, 'height', 'width'] }]);
    const fixed = await createModel('resnet18', { imageSize: 64 });
    expect(fixed.inputs).toMatchObject([{ dims: ['batch', 3, 64, 64] }]);
    expect(await logitsOf(fixed)).toEqual(await logitsOf(open));
  });

  it('lists names in torchvision’s spelling', async () => {
    const names = getGraphNodeNames(await createModel('resnet18'));
    expect(['x', ...names.slice(1)]).toEqual(readFacts(fixturePath('zoo/resnet18.json.gz')).eval_nodes);
    const shuffled = getGraphNodeNames(await createModel('shufflenet_v2_x0_5'));
    expect(shuffled.slice(18, 25)).toEqual([
      'stage2.0.cat',
      'stage2.0.view',
      'stage2.0.transpose',
      'stage2.0.contiguous',
      'stage2.0.view_1',
      'stage2.1.getitem',
      'stage2.1.getitem_1',
    ]);
    expect(shuffled.filter((name) => name.startsWith('/'))).toEqual([]);
  });

  it.each([
    ['seed', -1],
    ['opset', 16],
    ['numClasses', 0],
    ['imageSize', 1.5],
    ['weights', {}],
  ])('refuses %s %s', async (option, value) => {
    await expect(createModel('resnet18', { [option]: value })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option },
    });
  });

  it('runs with every operator set', async () => {
    const values: Tensor[] = [];
    for (const opset of [17, 18, 19, 20]) {
      const model = await createModel('resnet18', { opset });
      expect(model.opsets.get('')).toBe(opset);
      values.push(await logitsOf(model));
    }
    for (const value of values) expect(value).toEqual(values[0]);
  });
});

/** A made-up state dict with the keys of a network, frozen or not. */
async function stateOf(
  name: string,
  rows: Record<string, number>,
  counters: boolean,
): Promise<Map<string, Tensor>> {
  const model = await createModel(name, { numClasses: 5 });
  const state = new Map<string, Tensor>();
  for (const { name: key, dims } of model.namedParameters()) {
    const size = dims.reduce((product, side) => product * side, 1);
    state.set(key, { dtype: 'float32', dims, data: new Float32Array(size).fill(0.5) });
    if (counters && key.endsWith('running_var'))
      state.set(key.replace('running_var', 'num_batches_tracked'), {
        dtype: 'int64',
        dims: [],
        data: new BigInt64Array(1),
      });
  }
  for (const [key, count] of Object.entries(rows))
    state.set(key, { dtype: 'float32', dims: [count], data: new Float32Array(count) });
  return state;
}

/** The number that is added to the variances of frozen norms; undefined without such. */
async function epsilonOf(model: OnnxModel): Promise<number | undefined> {
  const extractor = await createFeatureExtractor(model, {
    'backbone.body.bn1': 'norm',
    'backbone.body.conv1': 'conv',
  });
  const { norm, conv } = await extractor.run(image);
  await extractor.close();
  // (x − .5) · .5 / √(.5 + ε) + .5
  const [y, x] = [norm.data[0] as number, conv.data[0] as number];
  return (((x - 0.5) * 0.5) / (y - 0.5)) ** 2 - 0.5;
}

describe('detectors', () => {
  const bias = 'roi_heads.box_predictor.cls_score.bias';

  it('take the epsilon of frozen norms from the name and the classes, or ask for it', async () => {
    const name = 'fasterrcnn_resnet50_fpn';
    const coco = await createModel(name, { weights: await stateOf(name, { [bias]: 91 }, false) });
    const stated = await createModel(name, {
      weights: await stateOf(name, { [bias]: 91 }, false),
      normEps: 0.1,
    });
    expect(await epsilonOf(coco)).toBeCloseTo(0, 4);
    expect(await epsilonOf(stated)).toBeCloseTo(0.1, 4);
    const other = { weights: await stateOf(name, { [bias]: 5 }, false) };
    const error = await failureOf(createModel(name, other), TapirError);
    expect(error).toMatchObject({ code: 'STATE_AMBIGUOUS', details: { candidates: ['0', '1e-5'] } });
    expect(error.message).toContain('--set normEps');
    await expect(createModel(name, { ...other, normEps: 1e-5 })).resolves.toBeDefined();
    await expect(
      createModel(name, { weights: await stateOf(name, { [bias]: 5 }, true) }),
    ).resolves.toBeDefined();
  });

  it('name the keys that they do not use, and refuse those of other detectors', async () => {
    const name = 'fasterrcnn_resnet50_fpn';
    const state = await stateOf(name, { [bias]: 91 }, false);
    const model = await createModel(name, { weights: state });
    expect(model.outputs.map(({ name: key }) => key)).toEqual([
      '0',
      '1',
      '2',
      '3',
      'pool',
      ...[0, 1, 2, 3, 4].map((at) => `objectness.${at}`),
      ...[0, 1, 2, 3, 4].map((at) => `pred_bbox_deltas.${at}`),
    ]);
    const path = join(scratch, 'faster.onnx');
    await model.save(path);
    expect(readFileSync(path).includes(`not used: ${bias}`)).toBe(true);
    state.set('roi_heads.mask_predictor.conv5_mask.bias', state.get(bias)!);
    await expect(createModel(name, { weights: state })).rejects.toMatchObject({
      code: 'STATE_MISMATCH',
      details: { unexpected: ['roi_heads.mask_predictor.conv5_mask.bias'] },
    });
  });

  it.each([
    ['resnet18', { normEps: 0 }, 'normEps'],
    ['fasterrcnn_resnet50_fpn', { auxLoss: true }, 'auxLoss'],
    ['lraspp_mobilenet_v3_large', { auxLoss: true }, 'auxLoss'],
  ])('%s refuses %o', async (name, options, option) => {
    await expect(createModel(name, options)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option },
    });
  });

  it('say to who asks for boxes what to do', async () => {
    const error = await failureOf(createModel('ssd300_vgg16', { boxes: true } as never), TapirError);
    expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'boxes' } });
    expect(error.message).toContain('anchors, NMS and RoI heads are not part of it');
  });
});

describe('networks that are not trained', () => {
  it.each(['efficientnet_b0', 'squeezenet1_1', 'shufflenet_v2_x1_0', 'regnet_y_400mf', 'swin_t'])(
    '%s: values stay in bounds, and differ from image to image',
    async (name) => {
      const extractor = await createFeatureExtractor(await createModel(name), { output: 'logits' });
      const size = 96;
      const pixels = 3 * size * size;
      const data = Float32Array.from({ length: 2 * pixels }, (_, i) =>
        i < pixels ? Math.sin(i) + Math.sin(i / 997) : Math.sin(i) + Math.cos(i / 1303),
      );
      const { logits } = await extractor.run({ dtype: 'float32', dims: [2, 3, size, size], data });
      await extractor.close();
      const values = logits.data as Float32Array;
      const [a, b] = [values.slice(0, 1000), values.slice(1000)];
      const rms = Math.hypot(...values) / Math.sqrt(values.length);
      expect(rms).toBeGreaterThan(1e-3);
      expect(rms).toBeLessThan(1e3);
      const cosine =
        a.reduce((sum, value, i) => sum + value * b[i]!, 0) / (Math.hypot(...a) * Math.hypot(...b));
      expect(cosine).toBeLessThan(0.999);
    },
  );
});

describe('networks with sizes of their own', () => {
  it('takes the size of the image for transformers', async () => {
    const model = await createModel('vit_b_32', { imageSize: 64, numClasses: 3 });
    expect(model.inputs).toMatchObject([{ dims: ['batch', 3, 64, 64] }]);
    const extractor = await createFeatureExtractor(model, { 'encoder.ln': 'tokens', output: 'logits' });
    const { tokens, logits } = await extractor.run(image);
    await extractor.close();
    expect(tokens.dims).toEqual([1, 5, 768]);
    expect(logits.dims).toEqual([1, 3]);
    await expect(createModel('vit_b_32', { imageSize: 65 })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'imageSize', expected: 'a multiple of 32 for this network' },
    });
  });

  it('takes only the size that MViT is built for', async () => {
    await expect(createModel('mvit_v1_b', { imageSize: 112 })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'imageSize', expected: '224 for this network' },
    });
  });

  it('refuses more weights than an ONNX file holds', async () => {
    await expect(createModel('vit_h_14')).rejects.toMatchObject({ code: 'MODEL_TOO_LARGE' });
  });

  it('refuses the parts of a tuple under one name, and says what they are', async () => {
    const model = await createModel('shufflenet_v2_x0_5');
    const error = await failureOf(pruneModel(model, ['stage2.1.chunk']), TapirError);
    expect(error).toMatchObject({ code: 'NAME_AMBIGUOUS' });
    const plan = await pruneModel(model, ['stage2.1.getitem', 'stage2.1.getitem_1']);
    expect(plan.plan.resolved.map(({ tensor }) => tensor)).toEqual([
      'stage2.1.getitem',
      'stage2.1.getitem_1',
    ]);
  });

  it('understands keys of older releases', async () => {
    const keys = new Map<string, Tensor>();
    const { initializers } = scanModel(memorySource(await bytesOf(await createModel('densenet121')))).graph;
    for (const { name, dims } of initializers)
      keys.set(name.replace(/(denselayer\d+\.(?:norm|conv))(\d)/, '$1.$2'), {
        dtype: 'float32',
        dims,
        data: new Float32Array(dims.reduce((product, size) => product * size, 1)),
      });
    expect([...keys.keys()]).toContain('features.denseblock1.denselayer1.norm.1.weight');
    await expect(createModel('densenet121', { weights: keys })).resolves.toBeDefined();
  });
});
