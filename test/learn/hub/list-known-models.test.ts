import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor } from 'onnx-tapir';
import { listKnownModels, pullModel } from 'onnx-tapir/zoo';
import { describe, expect, it } from 'vitest';
import { sendFile, startServer } from '../../support/file-server.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';

const scratch = scratchFolder();

describe('listKnownModels', () => {
  it('lists the models of this package', async () => {
    const models = await listKnownModels({ folder: join(scratch, 'none') });
    expect(models.length).toBeGreaterThan(10);
    expect(models[0]).toMatchObject({ name: 'resnet18-v1-7', cached: null, licence: { spdx: 'Apache-2.0' } });
  });

  it('takes undefined for left out, and refuses what is no option', async () => {
    const all = await listKnownModels();
    expect(await listKnownModels({ manifest: undefined, folder: undefined })).toEqual(all);
    for (const given of [{ manifest: '' }, { folder: 3 }, { list: 'x' }, null, 'x'])
      await expect(listKnownModels(given as object)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(listKnownModels({ manifest: join(scratch, 'none.json') })).rejects.toThrow(
      /there is no such file/,
    );
  });
});

describe('pullModel, by name', () => {
  it('downloads a model of a list, which can then be run', async () => {
    const bytes = tinyResNet();
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const manifest = join(scratch, 'list.json');
    const [template] = await listKnownModels();
    const files = [{ name: 'tiny.onnx', url: `${server.url}/a`, sizeBytes: bytes.length, sha256 }];
    const tiny = { ...template!, name: 'tiny', files, nodes: [{ name: 'avgpool', meaning: 'pooled' }] };
    writeFileSync(manifest, JSON.stringify({ models: [tiny] }));
    const folder = join(scratch, 'models');
    const { path, model } = await pullModel('tiny', { manifest, folder });
    expect(path).toBe(join(folder, 'tiny/tiny.onnx'));
    expect((await listKnownModels({ manifest, folder }))[0]!.cached).toBe(path);
    const extractor = await createFeatureExtractor(path, [model.nodes[0]!.name]);
    expect(extractor.outputs.map(({ name }) => name)).toEqual(['avgpool']);
    await extractor.close();
    await expect(pullModel('tyni', { manifest, folder })).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
      details: { names: [{ request: 'tyni', nearest: ['tiny'] }] },
    });
  });

  it('refuses bad options before it does anything', async () => {
    for (const given of [
      { attempts: 0 },
      { stallMs: 0 },
      { onProgress: true },
      { signal: {} },
      { limitBytes: 0.5 },
      { folder: '' },
    ])
      await expect(pullModel('resnet18-v1-7', given as object)).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      });
    for (const model of [undefined, null, 3, {}, []])
      await expect(pullModel(model as unknown as string)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
