/** The external weights of a model belong to a dataset: a run with other weights is refused. */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, mergeDataset, type EmbedSummary, type Shard } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const WIDTH = 5;
const MODEL = modelBytes({
  inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
  outputs: [{ name: 'y', dims: ['n', WIDTH] }],
  initializers: { w: { dims: [3, WIDTH], external: { location: 'model.onnx.data' } } },
  nodes: [
    { op: 'GlobalAveragePool', inputs: ['x'], outputs: ['pooled'] },
    { op: 'Flatten', inputs: ['pooled'], outputs: ['flat'] },
    { op: 'MatMul', inputs: ['flat', 'w'], outputs: ['y'] },
  ],
});

/** A model beside its weights, two photos, and a place for a dataset. */
function setUp() {
  const folder = mkdtempSync(join(scratchFolder(), 'weights-'));
  const photos = join(folder, 'photos');
  mkdirSync(photos);
  const addPhoto = (name: string): void =>
    copyFileSync(projectPath('examples/photos/sea/sea-0.jpg'), join(photos, `${name}.jpg`));
  addPhoto('a');
  addPhoto('b');
  writeFileSync(join(folder, 'model.onnx'), MODEL);
  const setWeights = (value: number, elements = 3 * WIDTH): void =>
    writeFileSync(join(folder, 'model.onnx.data'), new Float32Array(elements).fill(value));
  setWeights(1);
  const out = join(folder, 'out');
  const run = async (options: { shard?: Shard; overwrite?: boolean } = {}): Promise<EmbedSummary> => {
    const extractor = await createFeatureExtractor(join(folder, 'model.onnx'), { y: 'f' });
    try {
      return await embedFolder(extractor, photos, { out, ...options });
    } finally {
      await extractor.close();
    }
  };
  return { folder, out, addPhoto, setWeights, run };
}

const mismatch = {
  code: 'DATASET_MISMATCH',
  message: expect.stringMatching(/weights "model\.onnx\.data" is .* there and .*/) as string,
};

describe('external weights', () => {
  it('are recorded, and a run with the same ones adds to the dataset', async () => {
    const { run, addPhoto, folder } = setUp();
    await run();
    addPhoto('c');
    const { manifest, embedded } = await run();
    expect(embedded).toBe(1);
    const sha256 = expect.stringMatching(/^[0-9a-f]{64}$/) as string;
    expect(manifest.model).toMatchObject({
      externalFiles: ['model.onnx.data'],
      weights: [{ path: 'model.onnx.data', bytes: 60, sha256 }],
    });
    // A copy has another stamp and the same content.
    utimesSync(join(folder, 'model.onnx.data'), 1, 1);
    addPhoto('d');
    expect(await run()).toMatchObject({ embedded: 1, skipped: 3 });
  });

  it('are refused if they changed, whatever their size, and nothing is written', async () => {
    const { run, addPhoto, setWeights, out } = setUp();
    const { manifest } = await run();
    const before = readFileSync(join(out, 'journal.jsonl'), 'utf8');
    addPhoto('c');
    setWeights(2);
    await expect(run()).rejects.toMatchObject(mismatch);
    // More than the model needs.
    setWeights(1, 100);
    await expect(run()).rejects.toMatchObject({
      ...mismatch,
      message: expect.stringMatching(/is .* of 60 bytes there and 400 bytes/),
    });
    expect(readFileSync(join(out, 'journal.jsonl'), 'utf8')).toBe(before);
    expect(JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))).toEqual(
      JSON.parse(JSON.stringify(manifest)),
    );
    setWeights(2);
    expect((await run({ overwrite: true })).embedded).toBe(3);
  });

  it('of a journal that does not record them are not compared; later runs are', async () => {
    const { run, addPhoto, setWeights, out } = setUp();
    await run();
    const path = join(out, 'journal.jsonl');
    writeFileSync(path, readFileSync(path, 'utf8').replace(/,"weights":\[.*?\]/, ''));
    expect(readFileSync(path, 'utf8')).not.toContain('model.onnx.data');
    addPhoto('c');
    expect((await run()).manifest.model.weights).toHaveLength(1);
    setWeights(2);
    addPhoto('d');
    await expect(run()).rejects.toMatchObject(mismatch);
  });

  it('must be the same in all parts of a dataset', async () => {
    const { run, addPhoto, setWeights, out } = setUp();
    for (const name of 'cdefgh') addPhoto(name);
    await run({ shard: { index: 0, count: 2 } });
    await run({ shard: { index: 1, count: 2 } });
    await expect(mergeDataset(out)).resolves.toBeDefined();
    setWeights(2);
    await run({ shard: { index: 1, count: 2 }, overwrite: true });
    await expect(mergeDataset(out)).rejects.toMatchObject({
      code: 'DATASET_MISMATCH',
      message: expect.stringMatching(
        /weights "model\.onnx\.data" is .* in "parts\/1-of-2" and .* in "parts\/0-of-2"/,
      ),
    });
  });
});
