/** An option that is given as `undefined` counts as left out, in every function of the public API. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  DataParallel,
  distributedSampler,
  embedFolder,
  embedImages,
  embedStream,
  openDataset,
  openModel,
  pruneModel,
  verifyModel,
  type FeatureExtractor,
} from 'onnx-tapir';
import { listKnownModels } from 'onnx-tapir/zoo';
import { searchDataset } from 'onnx-tapir/features';
import { writeReport } from 'onnx-tapir/pages';
import { createService } from 'onnx-tapir/serve';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LISTEN_FIELDS } from '../../src/products/serve/service.js';
import { SERVICE_DEFAULTS } from '../../src/products/serve/batches/service-options.js';
import { REPORT_FIELDS } from '../../src/products/pages/report/report-options.js';
import { SEARCH_FIELDS } from '../../src/products/features/search/search-dataset.js';
import { EMBED_DEFAULTS } from '../../src/datasets/embed/embed-options.js';
import { EMBED_FOLDER_FIELDS } from '../../src/datasets/embed/embed-folder-options.js';
import { EMBED_STREAM_FIELDS } from '../../src/datasets/streams/row-pipe.js';
import { FEATURE_EXTRACTOR_FIELDS } from '../../src/extract/extractor-options.js';
import { PARALLEL_FIELDS } from '../../src/extract/replicas/parallel-options.js';
import { RUN_FIELDS } from '../../src/extract/replicas/run-options.js';
import { KNOWN_MODELS_FIELDS } from '../../src/learn/hub/list-known-models.js';
import { TRANSFORM_PRESETS } from '../../src/photos/images/transform/transform-options.js';
import { PRUNE_FIELDS } from '../../src/run/model/oracle/prune-model.js';
import { OPEN_FIELDS } from '../../src/run/model/open/open-model.js';
import { VERIFY_FIELDS } from '../../src/run/model/oracle/verify.js';
import { SAVE_FIELDS } from '../../src/run/model/open/save-whole.js';
import { SESSION_FIELDS } from '../../src/run/runtime/lanes/session-options.js';
import { projectPath, scratchFolder, tinyResNet } from '../support/fixtures.js';

const scratch = scratchFolder();
const path = join(scratch, 'model.onnx');
writeFileSync(path, tinyResNet());
const photos = projectPath('examples/photos/sea');
const photo = join(photos, 'sea-0.jpg');
const batch = { dtype: 'float32', dims: [1, 3, 64, 64], data: new Float32Array(3 * 64 * 64) } as const;
const small = { resize: 64, crop: 64 } as const;

/** All options of some defaults, each `undefined`. */
function nothing(defaults: object): object {
  return Object.fromEntries(Object.keys(defaults).map((name) => [name, undefined]));
}

let extractor: FeatureExtractor<'v'>;
beforeAll(async () => {
  extractor = await createFeatureExtractor(path, { avgpool: 'v' });
});
afterAll(() => extractor.close());

it('of models', async () => {
  const model = await openModel(path, nothing(OPEN_FIELDS));
  const pruned = await pruneModel(model, ['avgpool'], nothing(PRUNE_FIELDS));
  expect(pruned.plan).toEqual((await pruneModel(model, ['avgpool'])).plan);
  await pruned.save(join(scratch, 'pruned.onnx'), nothing(SAVE_FIELDS));
  await verifyModel(pruned, nothing(VERIFY_FIELDS));
});

it('of extractors, nested ones too', async () => {
  const session = nothing(SESSION_FIELDS);
  const parallel = nothing(PARALLEL_FIELDS);
  for (const given of [
    nothing(FEATURE_EXTRACTOR_FIELDS),
    { ...nothing(FEATURE_EXTRACTOR_FIELDS), session, parallel },
    { device: { type: 'cpu', id: undefined, threads: undefined } } as const,
  ]) {
    await using one = await createFeatureExtractor(path, { avgpool: 'v' }, given);
    expect(await one.run(batch, nothing(RUN_FIELDS))).toEqual(await extractor.run(batch));
  }
  await using two = await DataParallel.create(extractor, { devices: undefined, ...parallel });
  expect(await two.run(batch, { ...nothing(RUN_FIELDS), split: undefined })).toEqual(
    await extractor.run(batch),
  );
});

it('of a data-parallel model: what is inherited stays', async () => {
  const session = { graphOptimizationLevel: 'basic' } as const;
  const devices = ['cpu:0', 'cpu:1'] as const;
  await using parallel = await createFeatureExtractor(
    path,
    { avgpool: 'v' },
    { devices, session, parallel: { split: 'dynamic' } },
  );
  await using other = await createFeatureExtractor(parallel, ['avgpool'], nothing(FEATURE_EXTRACTOR_FIELDS));
  expect(other.devices).toEqual(parallel.devices);
  // The number of parts is only known of splits other than "dynamic".
  expect(() => other.rowsPerDevice(4)).toThrow(/"dynamic"/);
  await using third = await createFeatureExtractor(parallel, ['avgpool'], {
    parallel: { split: undefined, dim: undefined },
  });
  expect(() => third.rowsPerDevice(4)).toThrow(/"dynamic"/);
});

it('null is no option', async () => {
  for (const given of [{ parallel: null }, { session: null }, null])
    await expect(createFeatureExtractor(path, ['avgpool'], given as object)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
});

it('of images and datasets', async () => {
  const [preset] = Object.values(TRANSFORM_PRESETS);
  expect(createTransform(nothing(preset!)).options).toEqual(createTransform({}).options);
  const transform = createTransform({ ...nothing(preset!), ...small });
  for await (const row of embedImages(extractor, [photo], { ...nothing(EMBED_DEFAULTS), transform }))
    expect(row).toMatchObject({ path: photo, features: { v: {} } });
  const stream = embedStream(extractor, { ...nothing(EMBED_STREAM_FIELDS), transform });
  stream.end({ image: photo, id: 1 });
  expect(await stream.toArray()).toMatchObject([{ id: 1 }]);
  const out = join(scratch, 'dataset');
  await embedFolder(extractor, photos, { ...nothing(EMBED_FOLDER_FIELDS), transform, out });
  const dataset = await openDataset(out);
  const vectors: Float32Array[] = [];
  for await (const { data } of dataset.blocks('v', { rowsPerBlock: undefined })) vectors.push(data);
  expect(vectors.length).toBe(1);
  const query = vectors[0]!.subarray(0, vectors[0]!.length / 4);
  expect((await searchDataset(dataset, [query], nothing(SEARCH_FIELDS)))[0]!.length).toBe(4);
  await writeReport(out, { ...nothing(REPORT_FIELDS), out: join(scratch, 'report.html') });
  expect(await listKnownModels(nothing(KNOWN_MODELS_FIELDS))).toEqual(await listKnownModels());
});

it('of samplers and services', async () => {
  const sampler = { rank: 0, worldSize: 2, seed: undefined, epoch: undefined, shuffle: undefined };
  expect([...distributedSampler(4, sampler)]).toEqual([...distributedSampler(4, { rank: 0, worldSize: 2 })]);
  const transform = createTransform(small);
  await using service = createService(extractor, { ...nothing(SERVICE_DEFAULTS), transform });
  expect(await service.listen({ ...nothing(LISTEN_FIELDS), port: 0 })).toMatch(/^http:..127\.0\.0\.1:\d+$/);
});
