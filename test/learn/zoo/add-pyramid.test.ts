/** Pyramids on the levels of models against torchvision's own (shared/fixtures/zoo2), and what addPyramid refuses. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  TapirError,
  createFeatureExtractor,
  openModel,
  pruneModel,
  type OnnxModel,
  type Tensor,
} from 'onnx-tapir';
import { profileModel } from 'onnx-tapir/stages';
import { addPyramid, createModel, type ExtraLevels } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { scanModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import type { StateTensor } from '../../../src/learn/parameters/state/state-tensor.js';
import { failureOf } from '../../support/failure.js';
import { sharedNote } from '../../support/fixtures.js';
import { someOf } from '../../support/rounds.js';
import {
  differences,
  imageOf,
  readFacts,
  tasksFolder,
  weightsOf,
  type Run,
  type TaskFacts,
} from '../../support/zoo.js';

const bytesOf = async (model: OnnxModel): Promise<Uint8Array> =>
  (
    await pruneModel(
      model,
      model.outputs.map(({ name }) => name),
    )
  ).bytes();

type State = Map<string, StateTensor | Tensor>;

/** The tensors whose keys have a prefix, without it. */
function part(state: ReadonlyMap<string, StateTensor>, prefix: string, instead = ''): State {
  return new Map(
    [...state].flatMap(([key, value]) =>
      key.startsWith(prefix) ? [[instead + key.slice(prefix.length), value] as const] : [],
    ),
  );
}

/** torchvision's levels where its function chooses them. */
function levelsOf({ kwargs }: TaskFacts): Record<string, string> {
  const stated = kwargs['return_nodes'] ?? kwargs['return_layers'];
  if (stated !== undefined) return stated as Record<string, string>;
  return kwargs['how'] === 'mobilenet_backbone'
    ? { 'features.14': '0', 'features.18': '1' }
    : { layer1: '0', layer2: '1', layer3: '2', layer4: '3' };
}

function extraOf({ kwargs: { how, extra_blocks: extra } }: TaskFacts): ExtraLevels | undefined {
  if (extra !== null && typeof extra === 'object') return 'p6p7';
  return extra === 'LastLevelMaxPool' || /backbone/i.test(String(how)) ? 'pool' : undefined;
}

/** A network with the body's weights; the classifier, which no level needs, is not trained. */
async function bodyOf(facts: TaskFacts): Promise<OnnxModel> {
  const folder = facts.kwargs['how'] === 'mobilenet_backbone' ? 'features.' : '';
  const state = part(weightsOf(facts), 'body.', folder);
  for (const parameter of (await createModel(facts.architecture)).namedParameters())
    if (!state.has(parameter.name)) state.set(parameter.name, await parameter.read());
  return createModel(facts.architecture, { weights: state });
}

async function compare(
  model: OnnxModel,
  { outputs = {}, input }: Run,
  rename = (key: string): string => key,
): Promise<string[]> {
  const keys = model.outputs.map(({ name }) => name);
  expect(keys).toEqual(Object.keys(outputs).map(rename));
  const extractor = await createFeatureExtractor(model, keys);
  const isOne = Array.isArray(input.shape);
  const inputs = Object.values(input) as unknown as Run['input'][];
  const feeds = isOne
    ? imageOf({ input })
    : Object.fromEntries(extractor.inputs.map(({ name }, i) => [name, imageOf({ input: inputs[i]! })]));
  const results = await extractor.run(feeds);
  await extractor.close();
  return Object.entries(outputs).flatMap(([key, value]) =>
    differences({ ...value, node: key }, results[rename(key)]!, 1e-5),
  );
}

const pyramids =
  tasksFolder === undefined
    ? []
    : readdirSync(tasksFolder)
        .filter((name) => name.startsWith('fpn.') && !name.includes('nofpn') && !name.includes('.only.'))
        .map((file) => ({ file, facts: readFacts<TaskFacts>(join(tasksFolder!, file)) }));

describe(`torchvision’s pyramids${sharedNote}`, () => {
  it.each(someOf(pyramids.toReversed(), 2))(
    '$file: keys and values',
    { timeout: 60_000 },
    async ({ facts }) => {
      const body = await bodyOf(facts);
      const model = await addPyramid(body, levelsOf(facts), {
        outChannels: (facts.kwargs['out_channels'] as number | undefined) ?? 256,
        extra: extraOf(facts),
        state: part(weightsOf(facts), 'fpn.'),
      });
      for (const run of [facts, ...(facts.more ?? [])]) expect(await compare(model, run)).toEqual([]);
      const sum = (shapes: readonly (readonly number[])[]): number =>
        shapes.reduce((total, dims) => total + dims.reduce((a, b) => a * b, 1), 0);
      // Frozen norms are buffers in torchvision.
      const frozen = facts.keys.filter(
        ({ kind, key }) => kind === 'buffer' && /\.(?:weight|bias)$/.test(key),
      );
      expect(sum(model.parameters().map(({ dims }) => dims))).toBe(
        facts.parameters! + sum(frozen.map(({ shape }) => shape)),
      );
      const [, , height, width] = facts.input.shape;
      const { total } = await profileModel(model, {
        batch: 1,
        inputSizes: { height: height!, width: width! },
      });
      expect(total.macs).toBe(facts.macs_conv_linear_whole_input);
    },
  );

  it.skipIf(tasksFolder === undefined)('puts one with norms on inputs alone', async () => {
    const facts = readFacts<TaskFacts>(join(tasksFolder!, 'fpn.only.64.maxpool.bn.json'));
    const levels = { level_feat0: 'p0', level_feat1: 'p1', level_feat2: 'p2' };
    const path = join(tasksFolder!, 'identity/fpn.only.64.maxpool.bn.onnx');
    const model = await addPyramid(path, levels, { outChannels: 64, extra: 'pool', state: weightsOf(facts) });
    const rename = (key: string): string => key.replace('feat', 'p');
    for (const run of [facts, ...(facts.more ?? [])]) expect(await compare(model, run, rename)).toEqual([]);
  });
});

describe('addPyramid', () => {
  const levels = { layer1: 'fine', layer2: 'coarse' };

  it('keeps all bytes of what it stands on, and is reproducible', async () => {
    const resnet = await createModel('resnet18');
    const [model, again] = [await addPyramid(resnet, levels), await addPyramid(resnet, levels, { seed: 0 })];
    const [bytes, others] = await Promise.all([model, again].map(bytesOf));
    expect(Buffer.compare(bytes!, others!)).toBe(0);
    const before = await bytesOf(resnet);
    const kept = scanModel(memorySource(bytes!)).graph;
    const given = scanModel(memorySource(before)).graph;
    const text = Buffer.from(bytes!).toString('latin1');
    const names = new Set(kept.initializers.map(({ name }) => name));
    for (const { name, field } of given.initializers)
      if (names.has(name))
        expect(text.includes(Buffer.from(before.subarray(field.start, field.end)).toString('latin1'))).toBe(
          true,
        );
    expect(names.has('fc.weight')).toBe(false);
    expect(names.has('fpn.inner_blocks.1.0.bias')).toBe(true);
    expect(model.outputs).toMatchObject([
      { name: 'fine', dims: ['batch', 256, null, null] },
      { name: 'coarse', dims: ['batch', 256, null, null] },
    ]);
  });

  it('takes p6 from the map under the last level unless the channels are equal', async () => {
    const resnet = await createModel('resnet18');
    const dimsOf = async (outChannels: number): Promise<unknown> => {
      const model = await addPyramid(resnet, { layer4: 'last' }, { outChannels, extra: 'p6p7' });
      expect(model.outputs.map(({ name }) => name)).toEqual(['last', 'p6', 'p7']);
      return model.namedParameters().find(({ name }) => name === 'fpn.extra_blocks.p6.weight')?.dims;
    };
    expect(await dimsOf(64)).toEqual([64, 512, 3, 3]);
    expect(await dimsOf(512)).toEqual([512, 512, 3, 3]);
  });

  it('names levels that are no feature maps', async () => {
    const resnet = await createModel('resnet18');
    const error = await failureOf(addPyramid(resnet, { layer4: '0', flatten: '1' }), TapirError);
    expect(error).toMatchObject({ code: 'OUTPUT_MISFIT', details: { output: 'flatten' } });
    expect(error.message).toContain('a level of a pyramid is a feature map [N, C, H, W]');
  });

  it('names the keys of a state dict that do not fit, and takes those of older releases', async () => {
    const resnet = await createModel('resnet18');
    const pyramid = await addPyramid(resnet, levels);
    const state: State = new Map();
    for (const parameter of pyramid.namedParameters())
      if (parameter.name.startsWith('fpn.'))
        state.set(parameter.name.slice('fpn.'.length), await parameter.read());
    const old = new Map([...state].map(([key, value]) => [key.replace(/\.0\.(weight|bias)$/, '.$1'), value]));
    expect(old.has('inner_blocks.0.weight')).toBe(true);
    expect(
      Buffer.compare(await bytesOf(await addPyramid(resnet, levels, { state: old })), await bytesOf(pyramid)),
    ).toBe(0);
    state.delete('layer_blocks.1.0.bias');
    state.set('other', state.get('inner_blocks.0.0.bias')!);
    const error = await failureOf(addPyramid(resnet, levels, { state, outChannels: 128 }), TapirError);
    expect(error).toMatchObject({
      code: 'STATE_MISMATCH',
      details: { missing: ['layer_blocks.1.0.bias'], unexpected: ['other'] },
    });
    expect(error.message).toContain(
      'inner_blocks.0.0.weight is float32 [256, 64, 1, 1] and must be float32 [128, 64, 1, 1]',
    );
  });

  it.each([
    ['outChannels', 0],
    ['extra', 'p5'],
    ['state', new Map()],
    ['seed', -1],
  ])('refuses %s %s', async (option, value) => {
    await expect(
      addPyramid(await createModel('resnet18'), levels, { [option]: value }),
    ).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option },
    });
  });

  it('opens again, and finds names of the body and the pyramid', async () => {
    const pyramid = await addPyramid(await createModel('resnet18'), levels, { extra: 'pool' });
    const extractor = await createFeatureExtractor(await openModel(await bytesOf(pyramid)), {
      'layer1.0.add': 'a',
      'fpn.inner_blocks.0.0': 'b',
      'fpn.interpolate': 'c',
      pool: 'd',
    });
    const data = new Float32Array(3 * 64 * 48).fill(0.5);
    const { a, b, c, d } = await extractor.run({ dtype: 'float32', dims: [1, 3, 64, 48], data });
    await extractor.close();
    expect([a, b, c, d].map(({ dims }) => dims)).toEqual([
      [1, 64, 16, 12],
      [1, 256, 16, 12],
      [1, 256, 16, 12],
      [1, 256, 4, 3],
    ]);
  });
});
