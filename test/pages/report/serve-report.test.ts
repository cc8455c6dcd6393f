/** A served report: its search finds what `searchDataset` finds, in a real browser, and it writes nothing. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { searchDataset, type SearchQuery } from 'onnx-tapir/features';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PageHits } from '../../../src/pages/report/page/data.js';
import { browserNote, hasBrowser, openPage, startBrowser } from '../../support/browser.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { copyPhotos } from '../../support/photos.js';
import { runTapir } from '../../support/run.js';
import { servePage, type ServedPage } from '../../support/served-page.js';
import { writeHuggingFacePair } from '../../support/text-models.js';

const scratch = scratchFolder();
const [photos, dataset, clip] = [join(scratch, 'photos'), join(scratch, 'vectors'), join(scratch, 'clip')];
const model = join(clip, 'onnx', 'vision_model.onnx');
const HOSTILE = '<img src=x onerror=alert(1)>.jpg';
const query = projectPath('examples/photos/sea/sea-1.jpg');
/** Served without pictures' folder, UMAP and browser: they are not what is tested. */
const flags = ['--no-umap'];

let served: ServedPage;
let origin: string;
let key: string;
beforeAll(async () => {
  mkdirSync(photos);
  copyPhotos(photos);
  copyFileSync(projectPath('examples/photos/city/city-1.jpg'), join(photos, HOSTILE));
  writeHuggingFacePair(clip, 'clip');
  await using extractor = await createFeatureExtractor(model, { image_embeds: 'embedding' });
  await embedFolder(extractor, photos, { out: dataset, transform: 'auto' });
  served = await servePage('report', [dataset, '--serve', '--model', model, ...flags], scratch);
  const url = new URL(served.url);
  origin = url.origin;
  key = url.searchParams.get('key')!;
});
afterAll(async () => {
  expect((await served.stop()).code).toBe(0);
});

/** Asks as the page does. */
async function ask<Value = PageHits>(
  fields: Readonly<Record<string, string>>,
  body?: Uint8Array,
): Promise<Value> {
  const response = await fetch(`${origin}/api/search?${new URLSearchParams(fields).toString()}`, {
    headers: { 'x-tapir-key': key, ...(body ? { 'content-type': 'application/octet-stream' } : {}) },
    ...(body ? { method: 'POST', body } : {}),
  });
  return (await response.json()) as Value;
}

async function expectHits(given: PageHits, wanted: SearchQuery): Promise<void> {
  const [hits] = await searchDataset(await openDataset(dataset), wanted, { model, top: 24 });
  expect(given.hits.map(({ row, cosine }) => [row, cosine])).toEqual(
    hits!.map(({ row, score }) => [row, score]),
  );
  expect(given.hits.map(({ name }) => name)).toEqual(hits!.map(({ path }) => path));
}

describe('the search of a served report', () => {
  it('compares every row with words, a photo, and both', async () => {
    const bytes = readFileSync(query);
    const text = 'two cats';
    const words = await ask({ output: 'embedding', text });
    expect(words.photo).toBeNull();
    expect(words.hits.every(({ picture }) => picture !== null)).toBe(true);
    await expectHits(words, { text });
    const photo = await ask({ output: 'embedding', text: '' }, bytes);
    expect(photo.hits[0]).toMatchObject({ name: 'sea/sea-1.jpg' });
    expect(photo.hits[0]!.cosine).toBeGreaterThan(0.9999);
    expect(Buffer.from(photo.photo!, 'base64').subarray(8, 12).toString()).toBe('WEBP');
    await expectHits(photo, { images: [bytes] });
    await expectHits(await ask({ output: 'embedding', text }, bytes), { text, images: [bytes] });
  });

  it('says what is wrong with a question', async () => {
    const problemOf = async (fields: Readonly<Record<string, string>>, body?: Uint8Array): Promise<string> =>
      (await ask<{ problem: string }>(fields, body)).problem;
    expect(await problemOf({ output: 'embedding', text: ' ' })).toContain('at least one');
    expect(await problemOf({ output: 'other', text: 'x' })).toContain('"embedding"');
    expect(await problemOf({ output: 'embedding', text: 'x'.repeat(1001) })).toContain('1000');
    expect(await problemOf({ output: 'embedding', text: '' }, Buffer.from('no photo'))).toMatch(/image/i);
  });

  it('is for whoever has the key', async () => {
    expect((await fetch(`${origin}/api/search?text=x`)).status).toBe(403);
    expect((await fetch(`${origin}/`)).status).toBe(403);
    expect((await fetch(`${origin}//`)).status).toBe(403);
    const twice = await fetch(`${origin}/api/search?text=x&text=y`, { headers: { 'x-tapir-key': key } });
    expect(twice.status).toBe(400);
    expect((await fetch(`${origin}/api/picture?image=0`)).status).toBe(403);
    const pictureAt = async (place: string): Promise<unknown> =>
      (await fetch(`${origin}/api/picture?image=${place}`, { headers: { 'x-tapir-key': key } })).json();
    expect(await pictureAt('9999')).toEqual({ picture: null });
    expect(await pictureAt('-1')).toHaveProperty('problem');
  });
});

describe('tapir report --serve', () => {
  it('refuses another model, and flags that do not belong together', async () => {
    const other = join(scratch, 'other.onnx');
    writeFileSync(other, tinyResNet());
    const refused = await runTapir(['report', dataset, '--serve', '--no-open', '--model', other, ...flags]);
    expect(refused).toMatchObject({ code: expect.any(Number) as number });
    expect(refused.stderr).toContain('is not the model of the dataset');
    for (const wrong of [
      ['--serve', '--out', 'x.html'],
      ['--port', '0'],
      ['--text-model', other],
      ['--model', model],
      ['--serve', '--device', 'gpu'],
    ])
      expect(await runTapir(['report', dataset, ...wrong]), wrong.join(' ')).toMatchObject({ code: 2 });
    expect(readdirSync(dataset).filter((name) => name.endsWith('.html'))).toEqual([]);
  });
});

describe.skipIf(!hasBrowser)(`the page${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  it.each(['light', 'dark'] as const)('searches by words and by a dropped photo, in %s', async (scheme) => {
    const { page, problems } = await openPage(browser, served.url, { colorScheme: scheme });
    const names = (): Promise<string[]> =>
      page.locator('#hits .tile').evaluateAll((tiles) => tiles.map((tile) => tile.getAttribute('title')!));
    await page.locator('#words').fill('two cats');
    await page.keyboard.press('Enter');
    await page.locator('#hits .tile').first().waitFor();
    const { hits } = await ask({ output: 'embedding', text: 'two cats' });
    expect(await names()).toEqual(hits.map(({ name, row }) => `${name}, row ${row}`));
    expect(hits.some(({ name }) => name.includes(HOSTILE))).toBe(true);

    await page.locator('#words').fill('');
    // The browser's own types are not those of Node.
    const dropped = await page.evaluateHandle(`(() => {
      const transfer = new DataTransfer();
      const bytes = Uint8Array.from(atob('${readFileSync(query).toString('base64')}'), (char) => char.charCodeAt(0));
      transfer.items.add(new File([bytes], 'sea.jpg', { type: 'image/jpeg' }));
      return transfer;
    })()`);
    await page.dispatchEvent('body', 'dragover', { dataTransfer: dropped });
    await page.dispatchEvent('body', 'drop', { dataTransfer: dropped });
    await page.locator('#chosen img').waitFor();
    expect((await names())[0]).toContain('sea/sea-1.jpg');
    await page.locator('#search-section').screenshot({ path: projectPath(`out/search-${scheme}.png`) });

    await page.locator('#hits .tile').first().click();
    expect(await page.locator('.panel-name').textContent()).toBe('sea-1.jpg');
    await page.getByRole('button', { name: 'Remove the photo sea.jpg' }).click();
    expect(await page.locator('#hits .tile').count()).toBe(0);
    await page.locator('#photo').setInputFiles({
      name: 'not.jpg',
      mimeType: 'image/jpeg',
      buffer: Buffer.from('no photo'),
    });
    await page.locator('#search-said', { hasText: /not.* image/i }).waitFor();
    expect(problems).toEqual([]);
    await page.close();
  });

  it('asks for the pictures that it lacks', async () => {
    const page = await browser.newPage();
    await page.route(served.url, async (route) => {
      const response = await route.fetch();
      const body = (await response.text()).replace(/"thumbnails":\{[^}]*\}/, '"thumbnails":{}');
      await route.fulfill({ response, body });
    });
    await page.goto(served.url);
    await page.locator('.panel-picture img').waitFor();
    const shown = await page.locator('.panel-picture img').getAttribute('src');
    expect(await page.locator('.panel-name').textContent()).toBe(HOSTILE);
    const [hit] = (await ask({ text: '' }, readFileSync(join(photos, HOSTILE)))).hits;
    expect(shown).toBe(`data:image/webp;base64,${hit!.picture}`);
    await page.locator('#panel .tile img').nth(3).waitFor();
    await page.close();
  });

  it('without a model says how to search; a written page has no search', async () => {
    const plain = await servePage('report', [dataset, '--serve', ...flags], scratch);
    const { page, problems } = await openPage(browser, plain.url);
    expect(await page.locator('#search-section').textContent()).toContain('--model FILE');
    expect(await page.locator('#search').count()).toBe(0);
    expect(await page.locator('.panel-name').count()).toBe(1);
    expect(problems).toEqual([]);
    await page.close();
    await plain.stop();
    const out = join(scratch, 'page.html');
    expect(await runTapir(['report', dataset, '--out', out, ...flags])).toMatchObject({ code: 0 });
    expect(readFileSync(out, 'utf8')).not.toMatch(/<section id=.search-section/);
  });
});
