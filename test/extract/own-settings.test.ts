/** What a model's own file decides for a call, and what a call decides itself. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, pruneModel } from 'onnx-tapir';
import { Pipeline } from 'onnx-tapir/stages';
import { describe, expect, it } from 'vitest';
import { readClassLabels } from '../../src/extract/class-labels.js';
import { withOwnSettings } from '../../src/extract/own-settings.js';
import { openModel } from '../../src/run/model/open/open-model.js';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { hasBfloat16 } from '../support/openvino.js';
import { SMALL_SIZE, smallNet } from '../support/small-net.js';

const folder = mkdtempSync(join(scratchFolder(), 'own-'));
let count = 0;

/** A model whose own file states something. */
function modelWith(settings: object): string {
  const model = join(folder, `${count++}.onnx`);
  writeFileSync(model, smallNet());
  writeFileSync(`${model}.tapir.json`, JSON.stringify(settings));
  return model;
}

const NODES = { avgpool: 'embedding' } as const;
const FORM = { engine: 'onnxruntime', precision: 'float32' } as const;

describe('withOwnSettings', () => {
  it('lays the options of a call over those of the file', () => {
    const model = modelWith({ ...FORM, dynamicBatch: true });
    const file = `${model}.tapir.json`;
    expect(withOwnSettings(model, {}, true, ['cpu'])).toEqual({
      options: { ...FORM, batch: 'dynamic' },
      own: { file, keys: ['dynamicBatch', 'engine', 'precision'] },
    });
    expect(withOwnSettings(model, { batch: 'keep' }, true, ['cpu'])).toEqual({
      options: { ...FORM, batch: 'keep' },
      own: { file, keys: ['engine', 'precision'] },
    });
  });

  it.each([
    { precision: 'float32' },
    { engine: 'onnxruntime' },
    { binding: 'node' },
    { session: { graphOptimizationLevel: 'disabled' } },
  ] as const)('leaves engine and precision to a call that states %j', (asked) => {
    const model = modelWith({ engine: 'openvino', precision: 'bfloat16' });
    expect(withOwnSettings(model, asked, true, ['cpu'])).toEqual({ options: asked, own: null });
  });

  it('holds on the kind of device that was measured', () => {
    const model = modelWith({ ...FORM, device: 'cuda' });
    expect(withOwnSettings(model, {}, true, ['cpu']).own).toBeNull();
    expect(withOwnSettings(model, {}, true, ['cuda:1', 'cuda:0']).own).toMatchObject({
      keys: ['engine', 'precision'],
    });
    expect(withOwnSettings(model, {}, true, ['auto']).own).toBeNull();
  });

  it('refuses a precision that is a rewrite of the model, and names the file', () => {
    const model = modelWith({ engine: 'onnxruntime', precision: 'float16' });
    expect(() => withOwnSettings(model, {}, true, ['cpu'])).toThrow(
      expect.objectContaining({
        code: 'PRECISION_UNSUPPORTED',
        message: expect.stringContaining(`${model}.tapir.json`),
      }),
    );
    const stated = withOwnSettings(model, { precision: 'float32' } as const, true, ['cpu']);
    expect(stated.own).toBeNull();
  });
});

describe('a model’s own file', () => {
  it('names the classes of its model, and not those of what is made of it', async () => {
    const model = modelWith({ labels: ['cat', 'dog'] });
    expect(await readClassLabels(await openModel(model))).toEqual({ labels: ['cat', 'dog'] });
    expect(await readClassLabels(await openModel(readFileSync(model)))).toHaveProperty('problem');
  });

  it('makes the batch dynamic wherever the model is cut', async () => {
    const model = modelWith({ dynamicBatch: true });
    expect((await pruneModel(model, NODES)).plan.batch).not.toBeNull();
    expect((await pruneModel(model, NODES, { batch: 'keep' })).plan.batch).toBeNull();
    await using extractor = await createFeatureExtractor(model, NODES);
    expect(extractor.model.plan.batch).not.toBeNull();
  });

  it('is recorded in the manifest, as far as it decided', async () => {
    const transform = { resize: SMALL_SIZE, crop: SMALL_SIZE };
    const model = modelWith({ ...FORM, transform });
    await using extractor = await createFeatureExtractor(model, NODES);
    const out = join(folder, 'vectors');
    const { manifest } = await embedFolder(extractor, projectPath('examples/photos'), { out });
    expect(manifest.run.fromModelFile).toEqual(['engine', 'precision']);
    expect(manifest.transform!.source).toMatchObject({ file: `${model}.tapir.json`, kind: 'onnx-tapir' });
    await using stated = await createFeatureExtractor(model, NODES, FORM);
    const second = await embedFolder(stated, projectPath('examples/photos'), { out: `${out}-2` });
    expect(second.manifest.run).not.toHaveProperty('fromModelFile');
  });

  it.skipIf(!hasBfloat16)('chooses the engine of an extractor and of a pipeline', async () => {
    const model = modelWith({ engine: 'openvino', precision: 'bfloat16' });
    await using extractor = await createFeatureExtractor(model, NODES);
    expect(extractor).toMatchObject({ engine: 'openvino', precision: 'bfloat16' });
    await using again = await createFeatureExtractor(await pruneModel(model, NODES));
    expect(again).toMatchObject({ engine: 'openvino', precision: 'bfloat16' });
    await using pipeline = await Pipeline.create(model, NODES, { devices: ['cpu:0', 'cpu:1'] });
    expect(pipeline.engine).toBe('openvino');
  });
});
