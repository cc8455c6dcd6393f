/** Tokens whose number the file leaves open: runs of the graph tell their grid, for one image size or for all. */
import { createFeatureExtractor, pruneModel, verifyModel, type Tensor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes, type GraphSpec, type NodeSpec, type WeightSpec } from '../../../support/graphs.js';

const wave = (dims: readonly number[]): WeightSpec => ({
  dims,
  values: Array.from({ length: dims.reduce((total, size) => total * size, 1) }, (_, i) => Math.sin(i) / 9),
});

interface Vit {
  /** Positions that are added: the graph takes only images of as many patches. */
  readonly positions?: number;
  readonly isLast?: boolean;
  readonly hasClass?: boolean;
  readonly opset?: number;
}

/** Patches of 4 × 4 pixels as tokens `[n, ?, 8]` of an image of any declared size, after a class token. */
function vit({ positions, isLast = false, hasClass = true, opset = 17 }: Vit): Uint8Array {
  const nodes: NodeSpec[] = [
    { op: 'Transpose', inputs: ['x'], outputs: ['turned'], ints: { perm: [0, 3, 1, 2] } },
    {
      op: 'Conv',
      inputs: [isLast ? 'turned' : 'x', 'w'],
      outputs: ['c'],
      ints: { kernel_shape: [4, 4], strides: [4, 4] },
    },
    { op: 'Reshape', inputs: ['c', 'rows'], outputs: ['r'] },
    { op: 'Transpose', inputs: ['r'], outputs: ['patches'], ints: { perm: [0, 2, 1] } },
    { op: 'ReduceMean', inputs: ['patches'], outputs: ['class'], ints: { axes: [1], keepdims: 1 } },
    {
      op: 'Concat',
      inputs: hasClass ? ['class', 'patches'] : ['patches'],
      outputs: ['tokens'],
      ints: { axis: 1 },
    },
    positions === undefined
      ? { op: 'MatMul', inputs: ['tokens', 'head'], outputs: ['y'] }
      : { op: 'Add', name: 'positions', inputs: ['tokens', 'e'], outputs: ['y'] },
  ];
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: isLast ? ['n', 'h', 'w', 3] : ['n', 3, 'h', 'w'] }],
    outputs: [{ name: 'y', dims: ['n', 'sequence', 8] }],
    nodes: nodes.slice(isLast ? 0 : 1),
    initializers: {
      w: wave([8, 3, 4, 4]),
      rows: { dims: [3], values: [0, 8, -1], elemType: 'int64' },
      head: wave([8, 8]),
      ...(positions === undefined ? {} : { e: wave([1, positions, 8]) }),
    },
  };
  return modelBytes(spec, { opset });
}

const image = (height: number, width: number, isLast = false) => ({
  dtype: 'float32',
  dims: isLast ? [2, height, width, 3] : [2, 3, height, width],
  data: Float32Array.from({ length: 6 * height * width }, (_, i) => Math.sin(i * 0.7)),
});

/** Tokens `[n, L, C]` after the first ones, by row and channel. */
function patchesOf({ dims, data }: Tensor, prefix: number): number[][] {
  const [rows = 0, tokens = 0, channels = 0] = dims;
  return Array.from({ length: rows * channels }, (_, i) => {
    const [row, channel] = [Math.floor(i / channels), i % channels];
    return Array.from({ length: tokens - prefix }, (_unused, token) =>
      Number(data[(row * tokens + prefix + token) * channels + channel]),
    );
  });
}

const meanOf = (list: readonly number[]): number => list.reduce((sum, value) => sum + value, 0) / list.length;

describe('tokens of an open number', () => {
  it.each<[string, Vit, [number, number][]]>([
    [
      'of an image of any size',
      {},
      [
        [32, 32],
        [48, 16],
        [16, 64],
      ],
    ],
    [
      'of an image with channels last',
      { isLast: true },
      [
        [32, 32],
        [8, 24],
      ],
    ],
    [
      'without a class token, in operator set 9',
      { hasClass: false, opset: 9 },
      [
        [32, 32],
        [8, 24],
      ],
    ],
    ['of an image that must be square', { positions: 65 }, [[32, 32]]],
  ])('%s', async (_, spec, sizes) => {
    const model = vit(spec);
    const prefix = spec.hasClass === false ? 0 : 1;
    const options = { tokensToMap: { map: true }, pool: { mean: 'mean-tokens' } } as const;
    const request = [
      ['y', 'map'],
      ['tensor:y', 'mean'],
    ] as const;
    const session = { graphOptimizationLevel: 'disabled' } as const;
    await using parts = await createFeatureExtractor(model, request, { ...options, session });
    await using plain = await createFeatureExtractor(model, ['y'], { session });
    for (const [height, width] of sizes) {
      const feed = image(height, width, spec.isLast);
      // oxlint-disable-next-line no-await-in-loop -- one size at a time
      const [{ map, mean }, { y }] = await Promise.all([parts.run(feed), plain.run(feed)]);
      expect(map.dims).toEqual([2, 8, height / 4, width / 4]);
      const expected = patchesOf(y, prefix);
      expect([...(map.data as Float32Array)]).toEqual(expected.flat());
      expect(mean.dims).toEqual([2, 8]);
      expected.forEach((list, i) => expect(Number(mean.data[i])).toBeCloseTo(meanOf(list), 5));
    }
    const report = await verifyModel(await pruneModel(model, request, options));
    expect(report.isEqual).toBe(true);
  });

  it('are described in the plan, measured at the size of the caller', async () => {
    const open = await pruneModel(vit({}), ['y'], { tokensToMap: true, inputSizes: 64 });
    expect(open.plan.notes).toContain(
      '"y" has 257 tokens in a run on an image of 64×64: patches of 4×4 pixels after 1 other token',
    );
    const fixed = await pruneModel(vit({ positions: 257 }), ['y'], { pool: 'mean-tokens' });
    expect(fixed.plan.notes.join()).toMatch(
      /257 tokens in a run .*: a grid of 16×16 patches after 1 other token/,
    );
    // 47 pixels are 11 patches and a rest.
    const cropped = await pruneModel(vit({ positions: 122 }), ['y'], { tokensToMap: true, inputSizes: 47 });
    expect(cropped.plan.notes.join()).toMatch(/122 tokens .* 47×47: a grid of 11×11/);
    const wide = await pruneModel(vit({ positions: 33 }), ['y'], {
      tokensToMap: true,
      inputSizes: { h: 16, w: 32 },
    });
    expect(wide.plan.notes.join()).toMatch(/33 tokens .* 16×32: a grid of 4×8/);
  });

  it('are refused where they do not follow from an image', async () => {
    const text = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 'words', 8] }],
      outputs: [{ name: 'y', dims: ['n', 'words', 8] }],
      nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
      initializers: { w: wave([8, 8]) },
    });
    for (const options of [{ tokensToMap: true }, { pool: 'mean-tokens' }] as const)
      // oxlint-disable-next-line no-await-in-loop -- one refusal at a time
      await expect(pruneModel(text, ['y'], options)).rejects.toMatchObject({
        code: 'OUTPUT_MISFIT',
        message: expect.stringContaining('number of its tokens is open') as string,
      });
  });
});
