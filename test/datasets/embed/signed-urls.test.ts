/** A list of URLs that is signed again names the same photos, and nothing that it only fetches with is stored or shown. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  embedFolder,
  loadImage,
  openDataset,
  type EmbedFolderOptions,
  type EmbedSummary,
} from 'onnx-tapir';
import { expect, it } from 'vitest';
import { readLabels } from '../../../build/modules/datasets/labels/labels.js';
import { readRowQueries } from '../../../build/modules/products/features/search/query-vectors.js';
import { startServer } from '../../support/file-server.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const photos = ['sea/sea-0.jpg', 'sea/sea-1.jpg', 'city/city-0.jpg'];
const TRANSFORM = { resize: 64, crop: 64 } as const;
const SECRET = /SECRET/;

const { url, requests } = await startServer((request, response) => {
  const path = request.url!.split('?')[0]!;
  if (request.headers['x-key'] !== 'SECRET-key') response.writeHead(403).end();
  else if (photos.includes(path.slice(1)))
    response
      .writeHead(200, { 'last-modified': 'Sun, 01 Nov 2026 00:00:00 GMT' })
      .end(readFileSync(projectPath(`examples/photos${path}`)));
  else response.writeHead(404).end();
});
const options = { allowHttp: true, headers: { 'X-Key': 'SECRET-key' }, transform: TRANSFORM };
const extractor = await createFeatureExtractor(tinyResNet(), { fc: 'v' }, { transform: TRANSFORM });

const signed = (path: string, day: number): string =>
  `${url}/${path}?id=5&X-Amz-Credential=SECRET%2F${day}&X-Amz-Signature=SECRET${day}`.replace(
    '://',
    `://user:SECRET@`,
  );

function embed(out: string, day: number, more: Partial<EmbedFolderOptions> = {}): Promise<EmbedSummary> {
  const list = join(scratch, 'list.jsonl');
  const records = [...photos, 'gone.jpg'].map((path, id) => ({
    path: signed(path, day),
    id,
    thumb: signed(path, day),
  }));
  writeFileSync(list, records.map((record) => JSON.stringify(record)).join('\n'));
  return embedFolder(extractor, list, { out: join(scratch, out), ...options, ...more });
}

async function rowsOf(out: string): Promise<Record<string, unknown>[]> {
  const rows = [];
  for await (const row of (await openDataset(join(scratch, out))).rows())
    rows.push(row as unknown as Record<string, unknown>);
  return rows;
}

it('embeds nothing again, and keeps no secret', async () => {
  const first = await embed('signed', 1);
  expect(first.manifest.counts).toEqual({ inputs: 4, ok: 3, errors: 1 });
  const { message, details } = first.failures[0]!.error;
  expect(message).toBe(`cannot read ${url}/gone.jpg?id=5: the server answers 404 Not Found`);
  expect(JSON.stringify([details, first.manifest])).not.toMatch(SECRET);
  const again = await embed('signed', 2);
  expect(again).toMatchObject({
    embedded: 1,
    failed: 1,
    skipped: 3,
    missing: 0,
    manifest: { counts: { inputs: 4 } },
  });
  const rows = await rowsOf('signed');
  expect(rows.map(({ path, thumb }) => [path, thumb])).toEqual(
    [...photos, 'gone.jpg'].map((path) => [`${url}/${path}?id=5`, `${url}/${path}?id=5`]),
  );
  expect(JSON.stringify(rows)).not.toMatch(SECRET);
  const out = join(scratch, 'signed');
  const files = readdirSync(out, { recursive: true, encoding: 'utf8' }).map((name) => join(out, name));
  for (const file of files)
    if (statSync(file).isFile()) expect(readFileSync(file, 'latin1'), file).not.toMatch(SECRET);
  expect(requests.every(({ headers }) => headers['x-key'] === 'SECRET-key')).toBe(true);
});

it('is asked for by a URL as it is fetched', async () => {
  const dataset = await openDataset(join(scratch, 'signed'));
  const [query] = await readRowQueries(dataset, 'v', [signed(photos[0]!, 3)]);
  expect(query!.name).toBe(`${url}/${photos[0]!}?id=5`);
  await expect(readRowQueries(dataset, 'v', [signed('none.jpg', 3)])).rejects.toThrow(
    /^((?!SECRET).)*none\.jpg[^S]*$/,
  );
  const labels = new Map(photos.map((path) => [signed(path, 3), path.split('/')[0]!]));
  expect((await readLabels(dataset, labels)).classes).toEqual(['city', 'sea']);
});

it('has other names if that is asked for, and keeps to them', async () => {
  const name = { column: 'id' };
  await embed('named', 1, { name });
  expect(await embed('named', 2, { name })).toMatchObject({ embedded: 1, failed: 1, skipped: 3, missing: 0 });
  expect((await rowsOf('named')).map(({ path }) => path)).toEqual(['0', '1', '2', '3']);
  await expect(embed('named', 3)).rejects.toMatchObject({
    code: 'DATASET_MISMATCH',
    message: expect.stringMatching(/name is "column id" there and missing in this run/),
  });
  await embed('paths', 1, { name: 'path' });
  expect((await rowsOf('paths')).map(({ path }) => path)).toEqual([...photos, 'gone.jpg']);
});

it('is fetched with headers by embed and loadImage', async () => {
  const { headers } = options;
  const [photo] = photos;
  const vector = await extractor.embed(signed(photo!, 1), { headers });
  expect(vector).toEqual(await extractor.embed(projectPath(`examples/photos/${photo!}`)));
  await expect(extractor.embed(signed(photo!, 1))).rejects.toThrow(
    `cannot read ${url}/${photo!}?id=5: the server answers 403`,
  );
  const image = await loadImage(new URL(signed(photo!, 1)), TRANSFORM, { headers });
  expect(image.data).toEqual((await loadImage(projectPath(`examples/photos/${photo!}`), TRANSFORM)).data);
  await expect(loadImage(signed(photo!, 1))).rejects.toThrow(/^((?!SECRET).)*403 Forbidden$/);
  await expect(loadImage(signed(photo!, 1), TRANSFORM, { headers: { 'x-key': 'SECRET\n' } })).rejects.toThrow(
    /^((?!SECRET).)*one line.*$/,
  );
  await extractor.close();
});

it('is fetched by a command with the headers of a file', async () => {
  const [file, model, out] = ['headers.txt', 'model.onnx', 'by-command'].map((name) => join(scratch, name));
  writeFileSync(file!, 'X-Key: SECRET-key\n');
  writeFileSync(model!, tinyResNet());
  const list = join(scratch, 'one.txt');
  writeFileSync(list, `${url}/${photos[0]!}\n`);
  const flags = ['--allow-http', '--header-file', file!, '--transform', JSON.stringify(TRANSFORM)];
  const words = ['embed', list, '--model', model!, '--return', 'fc=v', '--out', out!, ...flags, '--json'];
  const { code, stdout, stderr } = await runTapir(words);
  expect(code, stderr).toBe(0);
  expect(stdout + stderr + readFileSync(join(out!, 'manifest.json'), 'utf8')).not.toMatch(SECRET);
});
