/** Weights that a session reads from the model's own file: the same results, and nothing of the file stays in use. */
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import onnxProto from 'onnx-proto';
import { createFeatureExtractor, type Tensor, type TensorLike } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../../models/resnet.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { prunedInternals } from '../../../../src/run/model/prune/pruned-model.js';
import { ADDRESS_DIGITS } from '../../../../src/run/runtime/lanes/protocol.js';
import { describeModel } from '../../../../src/run/model/lanes/session-model.js';
import { describeInMemory, describeMapped } from '../../../../src/run/model/lanes/weights-in-file.js';
import { withBinding } from '../../../../src/run/runtime/engines/onnxruntime.js';
import { readSessionOptions } from '../../../../src/run/runtime/lanes/session-options.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec, type WeightSpec } from '../../../support/graphs.js';

const { onnx } = onnxProto;
const scratch = scratchFolder();
const defaults = readSessionOptions({});

function save(name: string, bytes: Uint8Array): string {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
}

const resnet = save(
  'resnet.onnx',
  buildResNet(0, { blocks: [1, 1, 1, 1], width: 16, size: 64, classes: 64 }).bytes,
);

const weight = (...dims: number[]): WeightSpec => {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return { dims, values: Array.from({ length: size }, (_, i) => Math.sin(i) / 8) };
};
/** Matrices that are packed, and everything of their size that is not, or not always. */
const MATRICES: GraphSpec = {
  inputs: [
    { name: 'x', dims: ['n', 64] },
    { name: 'ids', dims: ['n'], elemType: 7 },
  ],
  outputs: [{ name: 'y', dims: ['n', 64] }],
  initializers: {
    product: weight(64, 96),
    gemm: weight(96, 64),
    looked_up: weight(100, 64),
    both: weight(64, 64),
    stack: weight(2, 64, 64),
    left: weight(64, 64),
    added: weight(1, 96 * 64),
    shape: { dims: [2], values: [-1, 64], elemType: 'int64' },
    small: weight(64, 2),
  },
  nodes: [
    { op: 'MatMul', inputs: ['x', 'product'], outputs: ['a'] },
    { op: 'Gemm', inputs: ['a', 'gemm'], outputs: ['b'] },
    { op: 'Gather', inputs: ['looked_up', 'ids'], outputs: ['c'] },
    { op: 'MatMul', inputs: ['b', 'both'], outputs: ['d'] },
    { op: 'Gather', inputs: ['both', 'ids'], outputs: ['e'] },
    { op: 'MatMul', inputs: ['d', 'stack'], outputs: ['f'] },
    { op: 'ReduceSum', inputs: ['f'], outputs: ['f1'], ints: { keepdims: 0 } },
    { op: 'MatMul', inputs: ['left', 'added_rows'], outputs: ['g'] },
    { op: 'Reshape', inputs: ['added', 'shape'], outputs: ['added_rows_wide'] },
    { op: 'MatMul', inputs: ['b', 'small'], outputs: ['s'] },
    { op: 'ReduceMax', inputs: ['s'], outputs: ['s1'], ints: { keepdims: 0 } },
    { op: 'Identity', inputs: ['left'], outputs: ['added_rows'] },
    { op: 'ReduceMean', inputs: ['added_rows_wide'], outputs: ['w'], ints: { keepdims: 0 } },
    { op: 'ReduceMean', inputs: ['g'], outputs: ['g1'], ints: { keepdims: 0 } },
    { op: 'Sum', inputs: ['b', 'c', 'd', 'e', 'f1', 's1', 'w', 'g1'], outputs: ['y'] },
  ],
};
const matrices = save('matrices.onnx', modelBytes(MATRICES));

interface Mapped {
  readonly bytes: number;
  readonly names: string[];
}

/** What a session is handed of a model, and which weights it reads from the file; these are checked to be the file's. */
async function describeOf(path: string, names: readonly string[], options = {}): Promise<Mapped> {
  const pruned = await pruneModel(path, names);
  const session = readSessionOptions(options);
  const { model, externalFolder, weightsFile } = await describeMapped(
    pruned.source,
    prunedInternals.of(pruned).rewrite,
    session,
  );
  const { graph } = onnx.ModelProto.decode(model);
  const whole = onnx.ModelProto.decode(readFileSync(path)).graph!;
  const mapped = graph!.initializer!.filter(({ externalData }) => externalData!.length > 0);
  for (const tensor of mapped) {
    const place = Object.fromEntries(tensor.externalData!.map(({ key, value }) => [key!, value!]));
    const file = join(externalFolder!, place['location']!);
    expect(file).toBe(weightsFile!.path);
    const start = Number(place['offset']);
    const bytes = readFileSync(file).subarray(start, start + Number(place['length']));
    expect(tensor.rawData).toHaveLength(0);
    const original = whole.initializer!.find(({ name }) => name === tensor.name)!;
    expect(bytes.equals(original.rawData!)).toBe(true);
  }
  return { bytes: model.byteLength, names: mapped.map(({ name }) => name!) };
}

const mapsOf = (path: string): string[] =>
  readFileSync('/proc/self/maps', 'utf8')
    .split('\n')
    .filter((line) => line.endsWith(path));

async function runOnce(
  model: string | Uint8Array,
  names: readonly string[],
  feeds: Record<string, TensorLike>,
): Promise<Record<string, Tensor>> {
  const extractor = await createFeatureExtractor(model, names, { outputDtype: 'keep' });
  try {
    const results = await extractor.run(feeds);
    if (typeof model === 'string' && process.platform === 'linux') expect(mapsOf(model)).toEqual([]);
    return results;
  } finally {
    await extractor.close();
  }
}

const ramp = (...dims: number[]): TensorLike => {
  const data = Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => Math.cos(i));
  return { dtype: 'float32', dims, data };
};
const ids: TensorLike = { dtype: 'int64', dims: [3], data: BigInt64Array.of(1n, 0n, 63n) };

describe('the weights of a session', () => {
  it.runIf(process.arch === 'x64')(
    'are read from the file where they are filters that are laid out in blocks',
    async () => {
      const { bytes, names } = await describeOf(resnet, ['layer4']);
      expect(names.length).toBeGreaterThan(5);
      expect(bytes).toBeLessThan(readFileSync(resnet).byteLength / 5);
      // Three channels do not fill a block.
      expect(names).not.toContain('conv1.weight');
      for (const graphOptimizationLevel of ['disabled', 'basic', 'extended'])
        expect((await describeOf(resnet, ['layer4'], { graphOptimizationLevel })).names).toEqual([]);
    },
  );

  it('are read from the file where they are matrices that are packed', async () => {
    expect((await describeOf(matrices, ['y'])).names).toEqual(['product', 'gemm']);
    const basic = { graphOptimizationLevel: 'basic' };
    expect((await describeOf(matrices, ['y'], basic)).names).toEqual(['product', 'gemm']);
    expect((await describeOf(matrices, ['y'], { graphOptimizationLevel: 'disabled' })).names).toEqual([]);
    const unpacked = { extra: { session: { disable_prepacking: '1' } } };
    expect((await describeOf(matrices, ['y'], unpacked)).names).toEqual([]);
  });

  it.each([
    ['filters', resnet, ['layer1', 'layer4', 'fc'], { input: ramp(2, 3, 64, 64) }],
    ['matrices', matrices, ['y'], { x: ramp(3, 64), ids }],
  ] as const)('give the same bits as weights in memory (%s), and let go of the file', async (...args) => {
    const [, path, names, feeds] = args;
    expect(await runOnce(path, names, feeds)).toEqual(await runOnce(readFileSync(path), names, feeds));
  });

  it('are found where the model is a link, as in the cache of Hugging Face', async () => {
    const folder = join(scratch, 'cache/snapshots/abc');
    const blobs = join(scratch, 'cache/blobs');
    mkdirSync(folder, { recursive: true });
    mkdirSync(blobs);
    copyFileSync(matrices, join(blobs, '0123'));
    symlinkSync('../../blobs/0123', join(folder, 'model.onnx'));
    const feeds = { x: ramp(3, 64), ids };
    const linked = join(folder, 'model.onnx');
    expect((await describeOf(linked, ['y'])).names).toEqual(['product', 'gemm']);
    expect(await runOnce(linked, ['y'], feeds)).toEqual(await runOnce(matrices, ['y'], feeds));
  });

  it('lie in the bytes themselves where those are all there is, or in a list of numbers', async () => {
    const pruned = await pruneModel(readFileSync(matrices), ['y']);
    const rewrite = prunedInternals.of(pruned).rewrite;
    expect(await describeMapped(pruned.source, rewrite, defaults)).toEqual(
      await describeModel(pruned.source, rewrite),
    );
    const model = onnx.ModelProto.decode(readFileSync(matrices));
    const product = model.graph!.initializer!.find(({ name }) => name === 'product')!;
    product.floatData = [...new Float32Array(Uint8Array.from(product.rawData!).buffer)];
    Reflect.deleteProperty(product, 'rawData');
    const listed = save('listed.onnx', onnx.ModelProto.encode(model).finish());
    expect((await describeOf(listed, ['y'])).names).toEqual(['gemm']);
    const feeds = { x: ramp(3, 64), ids };
    expect(await runOnce(listed, ['y'], feeds)).toEqual(await runOnce(matrices, ['y'], feeds));
  });

  it('are offsets of a fixed width for an engine that takes addresses, whatever uses them', async () => {
    const pruned = await pruneModel(matrices, ['y']);
    const { rewrite } = prunedInternals.of(pruned);
    const { model, offsetsAt, weightsFile } = await describeInMemory(pruned.source, rewrite);
    const whole = onnx.ModelProto.decode(readFileSync(matrices)).graph!.initializer!;
    const tensors = onnx.ModelProto.decode(model).graph!.initializer!;
    const outside = tensors.filter(({ externalData }) => externalData!.length > 0);
    expect(outside.map(({ name }) => name)).toContain('looked_up');
    const file = readFileSync(weightsFile!.path);
    const found = offsetsAt!.map((at) =>
      Number(Buffer.from(model).toString('latin1', at, at + ADDRESS_DIGITS)),
    );
    expect(found).toEqual(outside.map(({ externalData }) => Number(externalData![1]!.value)));
    found.forEach((offset, i) => {
      const { rawData } = whole.find(({ name }) => name === outside[i]!.name)!;
      expect(file.subarray(offset, offset + rawData!.length).equals(rawData!)).toBe(true);
    });
  });

  it.each([
    ['written to', (path: string) => writeFileSync(path, readFileSync(resnet))],
    ['cut short', (path: string) => truncateSync(path, 100)],
    ['removed', (path: string) => rmSync(path)],
  ])('of a file that is %s while the session opens are not taken', async (_, change) => {
    const path = join(scratch, `changed-${_.replace(' ', '-')}.onnx`);
    copyFileSync(matrices, path);
    const pruned = await pruneModel(path, ['y']);
    const description = await describeMapped(pruned.source, prunedInternals.of(pruned).rewrite, defaults);
    expect([description.externalFolder, basename(description.weightsFile!.path)]).toEqual([
      dirname(path),
      basename(path),
    ]);
    change(path);
    const device = { type: 'cpu', id: 0, threads: 1 } as const;
    const engine = withBinding('auto');
    await expect(engine.openSession({ ...description, device, session: defaults })).rejects.toMatchObject({
      code: 'MODEL_CHANGED',
      details: { source: path },
    });
  });
});
