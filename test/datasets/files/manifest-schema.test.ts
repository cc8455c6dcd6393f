/** docs/manifest.schema.json, against manifests of real runs. */
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { createFeatureExtractor, embedFolder, mergeDataset } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { importTables } from '../../../src/datasets/import/import-tables.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';

const model = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
const transform = { resize: 64, crop: 64 };
const schema = JSON.parse(readFileSync(projectPath('docs/manifest.schema.json'), 'utf8')) as object;
// The formats of dates and addresses come in a package of their own.
const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, formats: { 'date-time': true } });
const validate = ajv.compile(schema);

/** What the schema says about the manifest of a dataset; null if it fits. */
function problemsOf(manifest: unknown): unknown {
  return validate(manifest) ? null : validate.errors;
}

const read = (out: string): unknown => JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));

describe('the schema fits the manifest', () => {
  it('of a folder, as npy, arrow and parquet, whole and in float16', async () => {
    await using extractor = await createFeatureExtractor(model, { layer4: 'map', avgpool: 'pooled' });
    for (const options of [{}, { format: 'arrow' }, { format: 'parquet', dtype: 'float16' }] as const) {
      const out = join(scratchFolder(), 'vectors');
      await embedFolder(extractor, projectPath('examples/photos'), { out, transform, ...options });
      expect(problemsOf(read(out))).toBeNull();
    }
  });

  it('of reduced images, of photos that are gone, and of several runs', async () => {
    const photos = join(scratchFolder(), 'photos');
    cpSync(projectPath('examples/photos'), photos, { recursive: true });
    const out = join(scratchFolder(), 'vectors');
    await using extractor = await createFeatureExtractor(model, ['avgpool'], { batch: 'dynamic' });
    const options = { out, transform: { ...transform, decode: 'fast' }, removeMissing: true } as const;
    await embedFolder(extractor, photos, options);
    rmSync(join(photos, 'sea/sea-0.jpg'));
    await embedFolder(extractor, photos, options);
    expect(problemsOf(read(out))).toBeNull();
    expect(read(out)).toMatchObject({ counts: { removed: 1 }, run: { reduced: { images: 24 } } });
  });

  it('of an imported table', async () => {
    const out = join(scratchFolder(), 'vectors');
    await importTables({
      tables: [fixturePath('tables/gzip-v2.parquet')],
      column: 'embedding',
      path: 'path',
      out,
    });
    expect(problemsOf(read(out))).toBeNull();
  });

  it('of merged parts', async () => {
    const out = join(scratchFolder(), 'vectors');
    await using extractor = await createFeatureExtractor(model, ['avgpool']);
    for (const index of [0, 1])
      await embedFolder(extractor, projectPath('examples/photos'), {
        out,
        transform,
        shard: { index, count: 2 },
      });
    await mergeDataset(out);
    expect(problemsOf(read(out))).toBeNull();
  });
});

it('the schema refuses fields that it does not know', () => {
  expect(problemsOf({ format: 'onnx-tapir dataset', formatVersion: 1, more: 1 })).not.toBeNull();
});
