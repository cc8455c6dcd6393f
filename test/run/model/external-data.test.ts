/** Models whose weights lie in another file. */
import {
  closeSync,
  cpSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scanModel } from '../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../src/onnx/file/wire/source.js';
import { encodeFieldHead } from '../../../src/onnx/file/wire/wire.js';
import { fixturePath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import { readNpy } from '../../support/npy.js';

const scratch = scratchFolder();
const folder = join(scratch, 'external');
cpSync(fixturePath('graphs/generated/external'), folder, { recursive: true });
const model = join(folder, 'ok.onnx');

describe('external weights', () => {
  it('stay where they are, and are found by the session from any working directory', async () => {
    const pruned = await pruneModel(model, ['tensor:y']);
    expect(pruned.plan.kept.externalFiles).toEqual(['w.bin']);
    const extractor = await createFeatureExtractor(model, ['tensor:y']);
    const results = await extractor.run(readNpy(join(folder, 'data_ok/input_0.npy')));
    expect(results['tensor:y'].data).toEqual(readNpy(join(folder, 'data_ok/tap_000.npy')).data);
    await extractor.close();
  });

  it('refuse saving into another folder, and allow it beside them', async () => {
    const pruned = await pruneModel(model, { y: 'out' });
    const elsewhere = join(folder, 'elsewhere');
    mkdirSync(elsewhere);
    await expect(pruned.save(join(elsewhere, 'x.onnx'))).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_ELSEWHERE',
      details: { folder, files: ['w.bin'] },
    });
    expect(existsSync(join(elsewhere, 'x.onnx'))).toBe(false);
    await pruned.save(join(folder, 'x.onnx'));
    const again = await createFeatureExtractor(join(folder, 'x.onnx'), ['out']);
    expect((await again.run(readNpy(join(folder, 'data_ok/input_0.npy')))).out.dims).toEqual([2]);
    await again.close();
  });

  it('cannot be found for a model that was opened from bytes', async () => {
    await expect(createFeatureExtractor(readFileSync(model), ['tensor:y'])).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_UNSAFE',
      message: expect.stringMatching(/open it by path/),
    });
  });

  it('go inside, or into a new file, only what is needed', async () => {
    const place = join(scratch, 'moved');
    mkdirSync(place);
    const feed = readNpy(join(folder, 'data_ok/input_0.npy'));
    const expected = readNpy(join(folder, 'data_ok/tap_000.npy')).data;
    const pruned = await pruneModel(model, { y: 'out' });
    await pruned.save(join(place, 'inline.onnx'), { weights: 'inline' });
    await pruned.save(join(place, 'repacked.onnx'), { weights: 'repack' });
    for (const file of ['inline.onnx', 'repacked.onnx']) {
      const extractor = await createFeatureExtractor(join(place, file), ['out']);
      expect((await extractor.run(feed)).out.data, file).toEqual(expected);
      await extractor.close();
    }
    expect((await pruneModel(join(place, 'inline.onnx'), ['out'])).plan.kept.externalFiles).toEqual([]);
    await expect(pruned.save(join(place, 'repacked.onnx'), { weights: 'repack' })).rejects.toMatchObject({
      code: 'OUTPUT_EXISTS',
    });
  });
});

/** `y = x + near + far`, and a branch that reads a weight of its own; weights at the ends of a large file. */
function twoWeights(offset: number): GraphSpec {
  const weight = (at: number): { dims: number[]; external: Record<string, string> } => ({
    dims: [2],
    external: { location: 'big.data', offset: String(at), length: '8' },
  });
  const branch: GraphSpec = {
    outputs: [{ name: 'o', dims: [2] }],
    initializers: { inner: weight(8) },
    nodes: [{ op: 'Add', inputs: ['s', 'inner'], outputs: ['o'] }],
  };
  return {
    inputs: [
      { name: 'x', dims: [2] },
      { name: 'c', dims: [], elemType: 9 },
    ],
    outputs: [{ name: 'y', dims: [2] }],
    initializers: { near: weight(0), far: weight(offset), unused: weight(16) },
    nodes: [
      { op: 'Sum', inputs: ['x', 'near', 'far'], outputs: ['s'] },
      { op: 'If', inputs: ['c'], outputs: ['y'], bodies: { then_branch: branch, else_branch: branch } },
    ],
  };
}

/** A file of mostly holes with 1, 2 at its begin, 10, 20 after that, and 100, 200 at an offset. */
function writeWeights(path: string, offset: number): void {
  const file = openSync(path, 'w');
  writeSync(file, Buffer.from(Float32Array.of(1, 2, 10, 20).buffer), 0, 16, 0);
  writeSync(file, Buffer.from(Float32Array.of(100, 200).buffer), 0, 8, offset);
  ftruncateSync(file, offset + 8);
  closeSync(file);
}

const feeds = {
  x: { dtype: 'float32', dims: [2], data: Float32Array.of(0.5, 0.5) },
  c: { dtype: 'bool', dims: [], data: Uint8Array.of(1) },
};
const sums = Float32Array.of(111.5, 222.5);

describe('saving beside weights', () => {
  it('never writes over the model’s own weights', async () => {
    const own = join(scratch, 'own');
    cpSync(fixturePath('graphs/generated/external'), own, { recursive: true });
    const pruned = await pruneModel(join(own, 'ok.onnx'), ['tensor:y']);
    const before = readFileSync(join(own, 'w.bin'));
    for (const weights of ['keep', 'inline', 'repack'] as const) {
      await expect(pruned.save(join(own, 'w.bin'), { weights })).rejects.toMatchObject({
        code: 'OUTPUT_UNWRITABLE',
      });
    }
    expect(readFileSync(join(own, 'w.bin'))).toEqual(before);
  });

  it('of two that repack to one place at once, one is refused', async () => {
    const place = join(scratch, 'race');
    mkdirSync(place);
    const pruned = await pruneModel(model, ['tensor:y']);
    const saves = [1, 2, 3].map(() => pruned.save(join(place, 'r.onnx'), { weights: 'repack' }));
    const results = await Promise.allSettled(saves);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const result of results)
      if (result.status === 'rejected')
        expect((result.reason as { code: string }).code).toBeOneOf(['OUTPUT_EXISTS', 'OUTPUT_LOCKED']);
    expect(readdirSync(place).toSorted()).toEqual(['r.onnx', 'r.onnx.data']);
  });
});

describe('weights beyond 2 GiB', () => {
  const offset = 3 * 2 ** 30;
  const place = join(scratch, 'large');
  mkdirSync(place);
  writeWeights(join(place, 'big.data'), offset);
  writeFileSync(join(place, 'large.onnx'), modelBytes(twoWeights(offset)));

  it('run where they are, without being read into memory', async () => {
    const extractor = await createFeatureExtractor(join(place, 'large.onnx'), ['y']);
    expect((await extractor.run(feeds)).y.data).toEqual(sums);
    await extractor.close();
  });

  it.each(['inline', 'repack'] as const)(
    '%s: only the ranges that are needed, in bodies too',
    async (weights) => {
      const path = join(place, `${weights}.onnx`);
      const pruned = await pruneModel(join(place, 'large.onnx'), ['y']);
      await pruned.save(path, { weights });
      expect(statSync(path).size).toBeLessThan(2000);
      if (weights === 'repack') expect(statSync(`${path}.data`).size).toBeLessThan(256);
      const model = await openModel(path);
      const extractor = await createFeatureExtractor(model, ['y']);
      expect((await extractor.run(feeds)).y.data).toEqual(sums);
      await extractor.close();
    },
  );

  it('do not fit into one ONNX file', async () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      initializers: { w: { dims: [2 ** 29], external: { location: 'big.data' } } },
      nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
    };
    writeFileSync(join(place, 'huge.onnx'), modelBytes(spec));
    const pruned = await pruneModel(join(place, 'huge.onnx'), ['y']);
    await expect(pruned.save(join(place, 'out.onnx'), { weights: 'inline' })).rejects.toMatchObject({
      code: 'MODEL_TOO_LARGE',
    });
    expect(existsSync(join(place, 'out.onnx'))).toBe(false);
  });
});

describe('a Hugging Face cache', () => {
  const root = join(scratch, 'models--someone--model');
  const snapshot = join(root, 'snapshots', 'abc123');
  mkdirSync(join(root, 'blobs'), { recursive: true });
  mkdirSync(join(snapshot, 'onnx'), { recursive: true });
  writeWeights(join(root, 'blobs', 'd0d0'), 64);
  writeFileSync(join(root, 'blobs', 'e1e1'), modelBytes(twoWeights(64)));
  symlinkSync('../../../blobs/d0d0', join(snapshot, 'onnx', 'big.data'));
  symlinkSync('../../../blobs/e1e1', join(snapshot, 'onnx', 'model.onnx'));

  it('opens through its links into blobs', async () => {
    const extractor = await createFeatureExtractor(join(snapshot, 'onnx', 'model.onnx'), ['y']);
    expect((await extractor.run(feeds)).y.data).toEqual(sums);
    await extractor.close();
  });

  it('opens through its links into the blobs that repositories share, if the folder is marked as such', async () => {
    const shared = join(scratch, 'blobs');
    const blob = join(root, 'blobs', 'd0d0');
    mkdirSync(join(shared, 'f2'), { recursive: true });
    renameSync(blob, join(shared, 'f2', 'f2f2'));
    symlinkSync('../../blobs/f2/f2f2', blob);
    const path = join(snapshot, 'onnx', 'model.onnx');
    await expect(createFeatureExtractor(path, ['y'])).rejects.toMatchObject({ code: 'EXTERNAL_DATA_UNSAFE' });
    writeFileSync(join(shared, '.huggingface-shared-blobs'), '1');
    await using extractor = await createFeatureExtractor(path, ['y']);
    expect((await extractor.run(feeds)).y.data).toEqual(sums);
  });

  it('refuses a link to anywhere else', async () => {
    writeWeights(join(scratch, 'elsewhere.data'), 64);
    renameSync(join(snapshot, 'onnx', 'big.data'), join(snapshot, 'onnx', 'right.data'));
    symlinkSync('../../../../elsewhere.data', join(snapshot, 'onnx', 'big.data'));
    await expect(createFeatureExtractor(join(snapshot, 'onnx', 'model.onnx'), ['y'])).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_UNSAFE',
    });
  });
});

describe('a model file beyond 2 GiB', () => {
  it('is indexed and cut without reading the weights', async () => {
    // An initializer of 2.3 GB inside the file, most of it a hole; readFile would refuse the whole.
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2] }],
      outputs: [{ name: 'y', dims: [2] }],
      initializers: { small: [1, 2] },
      nodes: [
        { op: 'Add', name: 'head', inputs: ['x', 'small'], outputs: ['h'] },
        { op: 'Add', name: 'tail', inputs: ['h', 'huge'], outputs: ['y'] },
      ],
    };
    const bytes = modelBytes(spec);
    const { graph } = scanModel(memorySource(bytes));
    const [part] = graph.parts;
    const length = 2.3e9;
    const inside = Buffer.concat([
      encodeFieldHead(8, 4),
      Buffer.from('huge'),
      Buffer.of(0x10, 1),
      encodeFieldHead(9, length),
    ]);
    const head = Buffer.concat([encodeFieldHead(5, inside.length + length), inside]);
    const graphBody = bytes.subarray(part!.field.bodyStart, part!.field.end);
    const front = Buffer.concat([
      bytes.subarray(0, part!.field.start),
      bytes.subarray(part!.field.end),
      encodeFieldHead(7, graphBody.length + head.length + length),
      graphBody,
      head,
    ]);
    const path = join(scratch, 'inline.onnx');
    const file = openSync(path, 'w');
    writeSync(file, front);
    ftruncateSync(file, front.length + length);
    closeSync(file);
    const extractor = await createFeatureExtractor(path, { head: 'h' });
    expect(extractor.model.plan.dropped).toMatchObject({ initializers: ['huge'], nodes: ['tail'] });
    const { h } = await extractor.run({ dtype: 'float32', dims: [2], data: Float32Array.of(1, 1) });
    expect([...(h.data as Float32Array)]).toEqual([2, 3]);
    await extractor.close();
  });
});
