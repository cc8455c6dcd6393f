/** The embedding function in real tables of LanceDB. Run by scripts/test-lancedb.sh, which makes the models (TAPIR_LANCE_MODELS). */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import * as lancedb from '@lancedb/lancedb';
import { getRegistry, LanceSchema } from '@lancedb/lancedb/embedding';
import { Binary, Utf8 } from 'apache-arrow';
import { createFeatureExtractor, embedImages } from 'onnx-tapir';
import { createTextEncoder } from 'onnx-tapir/features';
import { closeTowers } from 'onnx-tapir-lancedb';

const models = process.env.TAPIR_LANCE_MODELS;
const photos = process.env.TAPIR_LANCE_PHOTOS;
const files = readdirSync(photos, { recursive: true })
  .filter((name) => name.endsWith('.jpg'))
  .sort()
  .map((name) => join(photos, name));
const clip = { model: join(models, 'clip/onnx/vision_model.onnx'), node: 'image_embeds' };
const folder = mkdtempSync(join(tmpdir(), 'tapir-lance-'));
let db;

before(async () => {
  db = await lancedb.connect(folder);
});
after(async () => {
  await closeTowers();
  rmSync(folder, { recursive: true });
});

const unit = (vector) => {
  const length = Math.hypot(...vector);
  return [...vector].map((value) => value / length);
};

/** The vectors that onnx-tapir gives without LanceDB. */
async function vectorsOf(paths) {
  const extractor = await createFeatureExtractor(clip.model, { [clip.node]: 'vector' });
  const vectors = [];
  for await (const { features } of embedImages(extractor, paths)) vectors.push(unit(features.vector.data));
  await extractor.close();
  return vectors;
}

const isNear = (actual, expected) => {
  assert.equal(actual.length, expected.length);
  for (const [i, value] of expected.entries()) assert.ok(Math.abs(actual[i] - value) < 1e-6);
};

void test('embeds images as rows are added, and finds them by text, by image and in another process', async () => {
  const tapir = await getRegistry().get('onnx-tapir').create(clip);
  const schema = LanceSchema({ path: tapir.sourceField(new Utf8()), vector: tapir.vectorField() });
  const table = await db.createEmptyTable('images', schema);
  await table.add(files.slice(0, 10).map((path) => ({ path })));
  await table.add(files.slice(10).map((path) => ({ path })));
  const rows = await table.query().toArray();
  assert.equal(rows.length, files.length);
  const expected = new Map((await vectorsOf(files)).map((vector, i) => [files[i], vector]));
  for (const { path, vector } of rows) isNear([...vector], expected.get(path));

  // The bytes of a photo find that photo first.
  const query = await tapir.computeQueryEmbeddings(readFileSync(files[3]));
  const [nearest] = await table.vectorSearch(query).limit(1).toArray();
  assert.equal(nearest.path, files[3]);
  assert.ok(nearest._distance < 1e-6);

  // A string is a text: the order is that of the cosines with the text tower's vector.
  const text = 'a dog on grass';
  const tower = await createTextEncoder(clip.model);
  const wanted = unit((await tower.encode([text]))[0]);
  await tower.close();
  const cosine = (vector) => vector.reduce((sum, value, i) => sum + value * wanted[i], 0);
  const best = [...expected]
    .sort((a, b) => cosine(b[1]) - cosine(a[1]))
    .slice(0, 5)
    .map(([path]) => path);
  const found = (await table.search(text).limit(5).toArray()).map(({ path }) => path);
  assert.deepEqual(found, best);

  // Another process makes the function from what the table stores.
  const code = `
    import * as lancedb from '@lancedb/lancedb';
    import { closeTowers } from 'onnx-tapir-lancedb';
    const table = await (await lancedb.connect(${JSON.stringify(folder)})).openTable('images');
    const hits = await table.search(${JSON.stringify(text)}).limit(5).toArray();
    console.log(JSON.stringify(hits.map(({ path }) => path)));
    await closeTowers();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code]);
  assert.deepEqual(JSON.parse(stdout), best);
});

void test('embeds bytes of files', async () => {
  const tapir = await getRegistry().get('onnx-tapir').create(clip);
  const schema = LanceSchema({ image: tapir.sourceField(new Binary()), vector: tapir.vectorField() });
  const table = await db.createEmptyTable('bytes', schema);
  await table.add(files.slice(0, 3).map((path) => ({ image: readFileSync(path) })));
  const expected = await vectorsOf(files.slice(0, 3));
  for (const [i, { vector }] of (await table.query().toArray()).entries()) isNear([...vector], expected[i]);
});

void test('embeds texts, with the same vectors as queries', async () => {
  const tapir = await getRegistry()
    .get('onnx-tapir')
    .create({ ...clip, source: 'text' });
  const schema = LanceSchema({ caption: tapir.sourceField(new Utf8()), vector: tapir.vectorField() });
  const table = await db.createEmptyTable('captions', schema);
  await table.add([{ caption: 'two cats' }, { caption: 'a red car' }]);
  const [nearest] = await table.search('a red car').limit(1).toArray();
  assert.equal(nearest.caption, 'a red car');
  assert.ok(nearest._distance < 1e-6);
});

void test('says what is wrong', async () => {
  const { create } = getRegistry().get('onnx-tapir');
  await assert.rejects(create({ model: join(models, 'nowhere.onnx'), node: 'x' }), {
    code: 'MODEL_UNREADABLE',
  });
  await assert.rejects(
    create({ model: join(models, 'resnet.onnx'), node: 'layer4' }),
    /choose a pooled node/,
  );
  const resnet = await create({
    model: join(models, 'resnet.onnx'),
    node: 'avgpool',
    transform: 'ImageNet1K_V1',
  });
  await assert.rejects(resnet.computeSourceEmbeddings([join(photos, 'nowhere.jpg')]), /nowhere\.jpg/);
  await assert.rejects(resnet.computeQueryEmbeddings('a text'), { code: 'OPTION_INVALID' });
});
