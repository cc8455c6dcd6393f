/** Which tokens are the class token, registers and patches: from names, from what the model reads, from config.json; and what is not proven. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, describeFeatures, isTapirError, openModel, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';
import { modelBytes, type NodeSpec, type WeightSpec } from '../../support/graphs.js';

const wave = (dims: readonly number[]): WeightSpec => ({
  dims,
  values: Array.from({ length: dims.reduce((total, size) => total * size, 1) }, (_, i) => Math.sin(i) / 9),
});

interface Vit {
  /** The learned tokens before the patches: the name of the weight, and how many. */
  readonly learned: readonly (readonly [name: string, count: number])[];
  /** Whether a head takes the first token. */
  readonly hasHead?: boolean;
  readonly sides?: readonly [number | string, number | string];
}

/** Patches of 4 × 4 pixels as tokens `[n, L, 8]` after learned tokens, and a residual block. */
function vit({ learned, hasHead = false, sides = ['h', 'w'] }: Vit): Uint8Array {
  const nodes: NodeSpec[] = [
    { op: 'Conv', inputs: ['x', 'w'], outputs: ['c'], ints: { kernel_shape: [4, 4], strides: [4, 4] } },
    { op: 'Reshape', inputs: ['c', 'rows'], outputs: ['r'] },
    { op: 'Transpose', inputs: ['r'], outputs: ['patches'], ints: { perm: [0, 2, 1] } },
    {
      op: 'Concat',
      name: 'join',
      inputs: [...learned.map(([name]) => name), 'patches'],
      outputs: ['tokens'],
      ints: { axis: 1 },
    },
    { op: 'MatMul', name: 'fc', inputs: ['tokens', 'square'], outputs: ['mixed'] },
    { op: 'Add', name: 'block', inputs: ['tokens', 'mixed'], outputs: ['y'] },
    ...(hasHead ? [{ op: 'Gather', inputs: ['y', 'zero'], outputs: ['head'], ints: { axis: 1 } }] : []),
  ];
  return modelBytes({
    inputs: [{ name: 'x', dims: [1, 3, ...sides] }],
    outputs: [{ name: 'y', dims: [1, 'tokens', 8] }, ...(hasHead ? [{ name: 'head', dims: [1, 8] }] : [])],
    nodes,
    initializers: {
      w: wave([8, 3, 4, 4]),
      rows: { dims: [3], values: [0, 8, -1], elemType: 'int64' },
      square: wave([8, 8]),
      ...(hasHead ? { zero: { dims: [], values: [0], elemType: 'int64' } } : {}),
      ...Object.fromEntries(learned.map(([name, count]) => [name, wave([1, count, 8])])),
    },
  });
}

const scratch = scratchFolder();
let folders = 0;

/** Writes a model into a folder of its own, with a config.json beside it. */
function save(bytes: Uint8Array, config?: unknown): string {
  const folder = join(scratch, `${folders++}`);
  mkdirSync(folder);
  if (config !== undefined)
    writeFileSync(join(folder, 'config.json'), typeof config === 'string' ? config : JSON.stringify(config));
  writeFileSync(join(folder, 'model.onnx'), bytes);
  return join(folder, 'model.onnx');
}

const CLASS = ['embeddings.cls_token', 1] as const;
const REGISTERS = ['embeddings.register_tokens', 4] as const;
const NAMELESS = ['onnx::Concat_12', 1] as const;
const NAMELESS_4 = ['onnx::Concat_13', 4] as const;

describe('tokens', () => {
  it.each<[string, Vit, unknown, object]>([
    [
      'a class token by its name',
      { learned: [CLASS] },
      undefined,
      { class: [0, 1], registers: [1, 1], patches: [1, null] },
    ],
    [
      'class token and registers by their names',
      { learned: [CLASS, REGISTERS] },
      undefined,
      { class: [0, 1], registers: [1, 5], patches: [5, null] },
    ],
    [
      'registers alone',
      { learned: [REGISTERS] },
      undefined,
      { class: [0, 0], registers: [0, 4], patches: [4, null] },
    ],
    [
      'a distillation token, which is neither',
      { learned: [CLASS, ['dist_token', 1]] },
      undefined,
      { class: [0, 1], registers: [2, 2], patches: [2, null] },
    ],
    ['patches alone', { learned: [] }, undefined, { class: [0, 0], registers: [0, 0], patches: [0, null] }],
    [
      'a class token that a head reads, without a name',
      { learned: [NAMELESS], hasHead: true },
      undefined,
      { class: [0, 1], registers: [1, 1], patches: [1, null] },
    ],
    [
      'registers by config.json, without names',
      { learned: [NAMELESS, NAMELESS_4] },
      { num_register_tokens: 4 },
      { class: [0, 1], registers: [1, 5], patches: [5, null] },
    ],
    [
      'registers by the part of config.json about images',
      { learned: [['onnx::Concat_14', 5]] },
      { vision_config: { num_register_tokens: 4 } },
      { class: [0, 1], registers: [1, 5], patches: [5, null] },
    ],
    [
      'no names and no configuration: only the patches',
      { learned: [NAMELESS, NAMELESS_4] },
      undefined,
      { class: null, registers: null, patches: [5, null] },
    ],
    [
      'a configuration of another model',
      { learned: [CLASS, REGISTERS] },
      { num_register_tokens: 8 },
      { class: [0, 1], registers: null, patches: [5, null] },
    ],
    [
      'a damaged configuration',
      { learned: [NAMELESS, NAMELESS_4] },
      '{',
      { class: null, registers: null, patches: [5, null] },
    ],
  ])('%s', async (_, spec, config, expected) => {
    const [info] = await describeFeatures(save(vit(spec), config), ['block']);
    expect(info!.tokens).toEqual({ ...expected, patchSize: 4 });
  });

  it('has numbers where the image has one size', async () => {
    const [info] = await describeFeatures(await openModel(vit({ learned: [CLASS], sides: [8, 12] })), [
      'block',
    ]);
    expect(info!.tokens!.patches).toEqual([1, null]);
    await using extractor = await createFeatureExtractor(
      vit({ learned: [CLASS], sides: [8, 12] }),
      ['block'],
      {
        part: 'patches',
      },
    );
    expect(extractor.outputs[0]!.tokens).toMatchObject({ class: [0, 0], patches: [0, null], patchSize: 4 });
  });

  it('are null for maps and vectors', async () => {
    const infos = await describeFeatures(vit({ learned: [CLASS], hasHead: true }), [
      'tensor:c',
      'tensor:head',
    ]);
    expect(infos.map(({ tokens }) => tokens)).toEqual([null, null]);
  });
});

const feed = (height: number, width: number) => ({
  dtype: 'float32' as const,
  dims: [1, 3, height, width],
  data: Float32Array.from({ length: 3 * height * width }, (_, i) => Math.sin(i * 0.7)),
});

describe('part', () => {
  const model = vit({ learned: [CLASS, REGISTERS] });

  it('keeps the tokens of one part, of images of any size', async () => {
    await using whole = await createFeatureExtractor(model, { block: 'v' });
    for (const [height, width] of [
      [8, 8],
      [12, 20],
    ] as const) {
      // oxlint-disable-next-line no-await-in-loop -- one session
      const { v } = await whole.run(feed(height, width));
      const count = (height / 4) * (width / 4);
      for (const [part, start, end] of [
        ['class', 0, 1],
        ['registers', 1, 5],
        ['patches', 5, 5 + count],
      ] as const) {
        // oxlint-disable-next-line no-await-in-loop -- one session
        await using extractor = await createFeatureExtractor(model, { block: 'v' }, { part: { v: part } });
        // oxlint-disable-next-line no-await-in-loop -- one session
        const { v: tokens } = await extractor.run(feed(height, width));
        expect(tokens.dims).toEqual([1, end - start, 8]);
        expect(tokens.data).toEqual(v.data.slice(start * 8, end * 8));
      }
    }
  });

  it.each([
    [{ part: 'registers', pool: 'mean-tokens' }, 1, 5],
    [{ part: 'patches', pool: 'mean-tokens' }, 5, 11],
    [{ part: 'class', pool: 'cls' }, 0, 1],
    [{ pool: 'mean-tokens' }, 5, 11],
  ] as const)('is pooled: %o', async (options, start, end) => {
    await using whole = await createFeatureExtractor(model, { block: 'v' });
    await using pooled = await createFeatureExtractor(model, { block: 'v' }, options);
    const tokens = (await whole.run(feed(8, 12))).v;
    const { v } = await pooled.run(feed(8, 12));
    expect(v.dims).toEqual([1, 8]);
    v.data.forEach((value, channel) => {
      let sum = 0;
      for (let token = start; token < end; token++) sum += Number(tokens.data[token * 8 + channel]);
      expect(value).toBeCloseTo(sum / (end - start), 5);
    });
  });

  it('says how to prove what it needs', async () => {
    const nameless = vit({ learned: [NAMELESS, NAMELESS_4] });
    const error: unknown = await pruneModel(nameless, ['block'], { part: 'registers' }).catch(
      (caught) => caught,
    );
    if (!isTapirError(error, 'FEATURE_AMBIGUOUS')) throw error;
    expect(error.details).toMatchObject({ output: 'block', part: 'registers' });
    expect(error.message).toMatch(/which ones are registers; put the config\.json .* take part "all"/);
    // The patches are proven all the same.
    await expect(pruneModel(nameless, ['block'], { part: 'patches' })).resolves.toBeDefined();
  });

  it.each([
    [{ part: 'registers' }, [CLASS], /no register tokens/],
    [{ part: 'class' }, [REGISTERS], /no class token/],
    [{ part: 'class', tokensToMap: true }, [CLASS], /only patches make a map/],
    [{ part: 'patches', pool: 'cls' }, [CLASS], /no part of the patches/],
  ] as const)('refuses %o of %o', async (options, learned, message) => {
    await expect(pruneModel(vit({ learned }), ['block'], options)).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringMatching(message) as string,
    });
  });

  it('refuses what is no part, and what has no tokens', async () => {
    await expect(pruneModel(model, ['block'], { part: 'cls' as 'class' })).rejects.toThrow(/part/);
    await expect(pruneModel(model, ['tensor:c'], { part: 'class' })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
    });
  });

  it('makes maps of any size without a run of the graph', async () => {
    const pruned = await pruneModel(model, { block: 'v' }, { tokensToMap: true });
    expect(pruned.plan.notes.join()).not.toContain('in a run');
    await using extractor = await createFeatureExtractor(pruned);
    const { v } = await extractor.run(feed(12, 20));
    expect(v!.dims).toEqual([1, 8, 3, 5]);
  });
});
