/** The scores and the layer that an attribution takes where the caller names neither. */
import { join } from 'node:path';
import { pruneModel, type Tensor } from 'onnx-tapir';
import { attribute, createAttribution } from 'onnx-tapir/explain';
import { describe, expect, it } from 'vitest';
import { scratchFolder, sharedNote } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import {
  decode,
  hasTraining,
  readTraining,
  trainingPath,
  type StoredTensor,
} from '../../support/training.js';

const [CHANNELS, CLASSES] = [4, 3];
const wave = (length: number): number[] => Array.from({ length }, (_, i) => Math.sin(1 + i * 0.7));
const IMAGE: Tensor<'float32'> = {
  dtype: 'float32',
  dims: [2, 3, 6, 8],
  data: Float32Array.from(wave(2 * 3 * 6 * 8)),
};

type Nodes = GraphSpec['nodes'];

/** A convolution and its activation `map`, then pooling and a linear layer, `logits`; then what makes `y` of them. */
function classifier(end: Nodes, more: Partial<GraphSpec> = {}, opset?: number): Uint8Array {
  return modelBytes(
    {
      inputs: [{ name: 'x', dims: ['n', 3, 6, 8] }],
      outputs: [{ name: 'y', dims: ['n', CLASSES] }],
      initializers: {
        kernel: { dims: [CHANNELS, 3, 3, 3], values: wave(CHANNELS * 27) },
        weight: { dims: [CHANNELS, CLASSES], values: wave(CHANNELS * CLASSES) },
        bias: { dims: [CLASSES], values: wave(CLASSES) },
      },
      nodes: [
        { op: 'Conv', inputs: ['x', 'kernel'], outputs: ['conv'] },
        { op: 'Tanh', inputs: ['conv'], outputs: ['map'] },
        { op: 'GlobalAveragePool', inputs: ['map'], outputs: ['pooled'] },
        { op: 'Flatten', inputs: ['pooled'], outputs: ['flat'] },
        { op: 'MatMul', inputs: ['flat', 'weight'], outputs: ['product'] },
        { op: 'Add', inputs: ['product', 'bias'], outputs: ['logits'] },
        ...end,
      ],
      ...more,
    },
    opset === undefined ? {} : { opset },
  );
}

describe('the scores', () => {
  it.each(['Softmax', 'LogSoftmax', 'Sigmoid'])('are what a final %s reads', async (op) => {
    const model = classifier([
      { op, inputs: ['logits'], outputs: ['p'] },
      { op: 'Identity', inputs: ['p'], outputs: ['y'] },
    ]);
    await using attribution = await createAttribution(model);
    expect(attribution).toMatchObject({ output: 'logits', skipped: op, layer: 'map' });
    const found = await attribution.run(IMAGE, { target: 1 });
    const expected = await attribute(model, IMAGE, {
      layer: 'tensor:map',
      output: 'tensor:logits',
      target: 1,
    });
    expect(found).toMatchObject({ output: 'logits', layer: 'map' });
    expect(found.map).toEqual(expected.map);
    expect(found.scores).toEqual(expected.scores);
    await using asked = await createAttribution(model, { output: 'tensor:y' });
    expect(asked).toMatchObject({ output: 'tensor:y', skipped: null });
    const probabilities = await asked.run(IMAGE, { target: 1 });
    expect(probabilities.scores).not.toEqual(found.scores);
  });

  it('are the first output of any other model', async () => {
    const model = classifier([{ op: 'Identity', inputs: ['logits'], outputs: ['y'] }]);
    await using attribution = await createAttribution(model, { method: 'saliency' });
    expect(attribution).toMatchObject({ output: 'tensor:y', skipped: null, layer: null });
  });
});

describe('the layer', () => {
  it('cannot be chosen where nothing has places; the error says what is needed', async () => {
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 6, 8] }],
      outputs: [{ name: 'y', dims: ['n', 144] }],
      nodes: [{ op: 'Flatten', inputs: ['x'], outputs: ['y'] }],
    });
    await expect(createAttribution(model)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/"layer" must be the name of a layer .* proves no such layer/),
    });
  });

  it('of a file of an old operator set needs the head alone, if pooling and a linear layer follow', async () => {
    const weight = { dims: [CHANNELS, CLASSES], values: wave(CHANNELS * CLASSES) };
    // Weights in Constant nodes and a computed shape leave the types of the head open.
    const head: Nodes = [
      { op: 'Constant', outputs: ['weight'], tensors: { value: weight } },
      { op: 'Shape', inputs: ['pooled'], outputs: ['shape'] },
      { op: 'Slice', inputs: ['shape', 'zero', 'one'], outputs: ['rows'] },
      { op: 'Concat', inputs: ['rows', 'rest'], outputs: ['flatShape'], ints: { axis: 0 } },
      { op: 'Reshape', inputs: ['pooled', 'flatShape'], outputs: ['flat'] },
    ];
    const nodes = [
      { op: 'Conv', inputs: ['x', 'kernel'], outputs: ['conv'] },
      { op: 'Tanh', inputs: ['conv'], outputs: ['map'] },
      { op: 'GlobalAveragePool', inputs: ['map'], outputs: ['pooled'] },
      ...head,
      { op: 'MatMul', inputs: ['flat', 'weight'], outputs: ['product'] },
      { op: 'Add', inputs: ['product', 'bias'], outputs: ['logits'] },
      { op: 'Softmax', inputs: ['logits'], outputs: ['y'], ints: { axis: 1 } },
    ];
    const initializers = {
      kernel: { dims: [CHANNELS, 3, 3, 3], values: wave(CHANNELS * 27) },
      bias: { dims: [CLASSES], values: wave(CLASSES) },
      zero: { dims: [1], values: [0], elemType: 'int64' },
      one: { dims: [1], values: [1], elemType: 'int64' },
      rest: { dims: [1], values: [CHANNELS], elemType: 'int64' },
    } as const;
    await using old = await createAttribution(classifier([], { nodes, initializers }, 11), {
      method: 'hires-cam',
    });
    expect(old).toMatchObject({ layer: 'map', output: 'logits', gradients: null });
    const { map } = await old.run(IMAGE, { target: 2 });
    const plain = classifier([{ op: 'Identity', inputs: ['logits'], outputs: ['y'] }]);
    expect(map).toEqual((await attribute(plain, IMAGE, { method: 'hires-cam', target: 2 })).map);
  });
});

describe.skipIf(!hasTraining)(`a ViT${sharedNote}`, () => {
  const files = hasTraining
    ? readTraining<{ readonly files: readonly { readonly file: string; readonly exporter: string }[] }>(
        'models/vit.json',
      ).files
    : [];

  it.each(['ts-unfolded', 'ts-folded', 'dynamo'])(
    '%s: the tokens before its last attention',
    async (exporter) => {
      const golden = readTraining<{ readonly input: StoredTensor }>('attribution/vit.json');
      const path = trainingPath(`models/${files.find((file) => file.exporter === exporter)!.file}`);
      await using attribution = await createAttribution(path);
      // torchvision's name of the node of ln_1.
      expect(attribution.layer).toBe('encoder.layers.encoder_layer_1.ln');
      const { map } = await attribution.run(decode(golden.input));
      expect(new Set(map.data).size).toBeGreaterThan(4);
    },
  );

  it.each([
    ['ts-unfolded', '/Gather_4_output_0'],
    ['dynamo', 'select_6'],
  ])(
    '%s, without its head: the same tokens, where the class token itself is the output',
    async (exporter, token) => {
      const path = trainingPath(`models/${files.find((file) => file.exporter === exporter)!.file}`);
      const headless = join(scratchFolder(), `${exporter}.onnx`);
      await (await pruneModel(path, { [`tensor:${token}`]: token })).save(headless);
      await using attribution = await createAttribution(headless);
      expect(attribution.layer).toBe('encoder.layers.encoder_layer_1.ln');
    },
  );
});

it('scores that do not depend on the image are refused', async () => {
  const model = classifier([{ op: 'Relu', inputs: ['logits'], outputs: ['y'] }], {
    inputs: ['photo', 'x'].map((name) => ({ name, dims: ['n', 3, 6, 8] })),
  });
  await expect(createAttribution(model, { layer: 'map' })).rejects.toMatchObject({
    code: 'INPUT_MISMATCH',
    details: { input: 'photo' },
  });
});
