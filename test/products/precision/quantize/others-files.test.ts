/** Quantised files of other tools: names, cuts, costs, and a warning where a vector depends on its batch. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  describeFeatures,
  getGraphNodeNames,
  openModel,
  pruneModel,
} from 'onnx-tapir';
import { profileModel } from 'onnx-tapir/stages';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec, type NodeSpec } from '../../../support/graphs.js';
import { runTapir } from '../../../support/run.js';

const SIZE = 8;
const weight = Array.from({ length: 12 }, (_, i) => (i % 5) - 2);
const levels = { s: [0.05], z: { dims: [], values: [0] } } as const;

/** Images `[n, 3, 8, 8]` → `[n, 4, 8, 8]` by a convolution of 1 × 1 with 8-bit weights, named as exporters name it. */
function quantised(nodes: readonly NodeSpec[]): Uint8Array {
  const spec: GraphSpec = {
    inputs: [{ name: 'x', dims: ['n', 3, SIZE, SIZE] }],
    outputs: [{ name: 'y', dims: ['n', 4, SIZE, SIZE] }],
    nodes: [
      // The 8-bit weights and zeros, from float32 constants.
      { op: 'Cast', inputs: ['w32'], outputs: ['w8'], ints: { to: 3 } },
      { op: 'Cast', inputs: ['z'], outputs: ['zu'], ints: { to: 2 } },
      { op: 'Cast', inputs: ['z'], outputs: ['zi'], ints: { to: 3 } },
      ...nodes,
    ],
    initializers: {
      w32: { dims: [4, 3, 1, 1], values: weight },
      s: { dims: [], values: levels.s },
      z: levels.z,
    },
  };
  return modelBytes(spec, { opset: 17 });
}

const FORMS: Readonly<Record<string, readonly NodeSpec[]>> = {
  QDQ: [
    { op: 'QuantizeLinear', name: '/q', inputs: ['x', 's', 'zu'], outputs: ['xq'] },
    { op: 'DequantizeLinear', name: '/d', inputs: ['xq', 's', 'zu'], outputs: ['xd'] },
    { op: 'DequantizeLinear', name: '/w', inputs: ['w8', 's', 'zi'], outputs: ['wd'] },
    { op: 'Conv', name: '/conv1/Conv', inputs: ['xd', 'wd'], outputs: ['c'] },
    { op: 'Relu', name: '/relu/Relu', inputs: ['c'], outputs: ['y'] },
  ],
  QOperator: [
    { op: 'QuantizeLinear', name: '/q', inputs: ['x', 's', 'zu'], outputs: ['xq'] },
    {
      op: 'QLinearConv',
      name: '/conv1/Conv',
      inputs: ['xq', 's', 'zu', 'w8', 's', 'zi', 's', 'zu'],
      outputs: ['cq'],
    },
    { op: 'DequantizeLinear', name: '/d', inputs: ['cq', 's', 'zu'], outputs: ['c'] },
    { op: 'Relu', name: '/relu/Relu', inputs: ['c'], outputs: ['y'] },
  ],
  DynamicQuantizeLinear: [
    { op: 'DynamicQuantizeLinear', name: '/q', inputs: ['x'], outputs: ['xq', 'xs', 'xz'] },
    { op: 'ConvInteger', name: '/conv1/Conv', inputs: ['xq', 'w8', 'xz'], outputs: ['ci'] },
    { op: 'Cast', name: '/cast', inputs: ['ci'], outputs: ['cf'], ints: { to: 1 } },
    { op: 'Mul', name: '/mul', inputs: ['cf', 'xs'], outputs: ['m'] },
    { op: 'Relu', name: '/relu/Relu', inputs: ['m'], outputs: ['y'] },
  ],
};

const folder = mkdtempSync(join(scratchFolder(), 'others-'));

describe.each(Object.entries(FORMS))('a file of %s', (form, nodes) => {
  const file = join(folder, `${form}.onnx`);
  writeFileSync(file, quantised(nodes));

  it('has the names of its modules, and is cut at them', async () => {
    const names = getGraphNodeNames(await openModel(file));
    expect(names).toEqual(expect.arrayContaining(['conv1', 'relu']));
    const [described] = await describeFeatures(file, ['relu']);
    expect(described).toMatchObject({ dtype: 'float32', channels: 4 });
    await using extractor = await createFeatureExtractor(file, ['relu', 'conv1'], { outputDtype: 'keep' });
    const data = Float32Array.from({ length: 2 * 3 * SIZE ** 2 }, (_, i) => Math.abs(Math.sin(i)));
    const { relu } = await extractor.run({ dtype: 'float32', dims: [2, 3, SIZE, SIZE], data });
    expect(relu!.dims).toEqual([2, 4, SIZE, SIZE]);
  });

  it('is counted in multiplications, and warned of where a batch shares a scale', async () => {
    const { total } = await profileModel(file, { inputSizes: {} });
    expect(total.macs).toBe(4 * 3 * SIZE ** 2);
    const { notes } = (await pruneModel(file, ['relu'])).plan;
    const isShared = form === 'DynamicQuantizeLinear';
    expect(notes.some((note) => note.includes('depend on the images beside it'))).toBe(isShared);
    const out = join(folder, `${form}.vectors`);
    const flags = ['--model', file, '--return', 'relu', '--transform', 'transform.json', '--out', out];
    const transform = join(folder, 'transform.json');
    writeFileSync(transform, JSON.stringify({ resize: SIZE, crop: SIZE }));
    const ended = await runTapir(['embed', projectPath('examples/photos/sea'), ...flags.with(5, transform)]);
    expect(ended.code).toBe(0);
    expect(/warning: it takes 8-bit scales from the whole batch/.test(ended.stderr)).toBe(isShared);
  });
});
