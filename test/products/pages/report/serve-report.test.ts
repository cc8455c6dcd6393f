/** A served report, in a real browser: its search finds what `searchDataset` finds, and it writes only the columns that it is asked to save. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { searchDataset, type SearchQuery } from 'onnx-tapir/features';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PageHits } from '../../../../src/products/pages/report/page/data.js';
import { browserNote, hasBrowser, openPage, startBrowser } from '../../../support/browser.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { copyPhotos } from '../../../support/photos.js';
import { someOf } from '../../../support/rounds.js';
import { runTapir } from '../../../support/run.js';
import { servePage, type ServedPage } from '../../../support/served-page.js';
import { writeHuggingFacePair } from '../../../support/text-models.js';

const scratch = scratchFolder();
const [photos, dataset, clip] = [join(scratch, 'photos'), join(scratch, 'vectors'), join(scratch, 'clip')];
const model = join(clip, 'onnx', 'vision_model.onnx');
const HOSTILE = '<img src=x onerror=alert(1)>.jpg';
const query = projectPath('examples/photos/sea/sea-1.jpg');
/** Served without pictures' folder, UMAP and browser: they are not what is tested. */
const flags = ['--set', 'umap=false'];

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

describe('a selection of a served report', () => {
  const post = async (fields: Readonly<Record<string, string>>, body: string): Promise<unknown> => {
    const all = { name: 'x', value: 'yes', others: 'no', change: 'false', ...fields };
    const response = await fetch(`${origin}/api/column?${new URLSearchParams(all).toString()}`, {
      method: 'POST',
      headers: { 'x-tapir-key': key, 'content-type': 'application/octet-stream' },
      body,
    });
    return response.json();
  };

  it('is refused if it names no images, or images that the map does not have', async () => {
    for (const body of ['[]', '[0.5]', '[-1]', '[99999]', '["0"]', '{}', 'null', 'no json'])
      expect(await post({}, body), body).toHaveProperty('problem');
    expect(await post({ name: 'row' }, '[0]')).toHaveProperty('problem');
    expect(await post({ change: 'perhaps' }, '[0]')).toHaveProperty('problem');
    const bare = await fetch(`${origin}/api/column?name=x&value=y&others=&change=false`, { method: 'POST' });
    expect(bare.status).toBe(403);
    expect(readdirSync(dataset)).not.toContain('columns.parquet');
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

  it.each(someOf(['light', 'dark'] as const, 2))(
    'searches by words and by a dropped photo, in %s',
    async (scheme) => {
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
    },
  );

  it('saves a selection as a column, which probe, search and dedupe take, and filters by it', async () => {
    const { page, problems } = await openPage(browser, served.url);
    const options = (): Promise<string[]> => page.locator('#filter option').allTextContents();
    // The folders are there to begin with.
    expect(await options()).toContain('sea');
    await page.locator('#find-image').fill('sea/');
    await page.locator('#gathered .tile').nth(3).waitFor();
    const gathered = await page.locator('#gathered .tile').count();
    const form = page.locator('.save-form');
    await form.getByLabel('Save as column').fill('liked');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('Saved: --labels column:liked, --where column:liked=yes').waitFor();
    // It colours the map, and the selection stays.
    expect(await page.locator('#colour-by option:checked').textContent()).toBe('liked');
    expect(await page.locator('#legend button').allTextContents()).toEqual([
      `no${24 + 1 - gathered}`,
      `yes${gathered}`,
    ]);
    expect(await page.locator('#gathered .tile').count()).toBe(gathered);
    await page.locator('#map-section').screenshot({ path: projectPath('out/saved-column.png') });

    // A second time it is refused, until it is allowed to change what was saved.
    await form.getByLabel('these are').fill('very');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('has a column "liked" already').waitFor();
    await page.locator('#find-image').fill('sea-0');
    await page.locator('#gathered .tile').first().waitFor();
    await form.getByLabel('Save as column').fill('liked');
    await form.getByLabel('these are').fill('very');
    await form.getByLabel('change a saved column').check();
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('column:liked=very').waitFor();

    // Another column comes and goes; a name that no saved column has is refused.
    await form.getByLabel('Save as column').fill('gone');
    await form.getByLabel('change a saved column').uncheck();
    await form.getByRole('button', { name: 'Save' }).click();
    await form.getByText('column:gone=very').waitFor();
    expect(await page.locator('#colour-by option').allTextContents()).toContain('gone');
    await form.getByRole('button', { name: 'Remove' }).click();
    await form.getByRole('button', { name: 'Remove “gone” for good' }).click();
    await form.getByText('Removed: gone').waitFor();
    expect(await page.locator('#colour-by option').allTextContents()).not.toContain('gone');
    await form.getByRole('button', { name: 'Remove' }).click();
    await form.getByRole('button', { name: 'Remove “gone” for good' }).click();
    await form.getByText('must be a saved column: liked').waitFor();

    // The filter holds for what is found, and for what is drawn around.
    await page.locator('#filter').selectOption({ label: 'yes' });
    expect(await page.locator('#filtered').textContent()).toBe(
      `${gathered - 1} of ${24 + 1} images are shown.`,
    );
    await page.locator('#find-image').fill('.jpg');
    await page.locator('#gathered .tile').first().waitFor();
    expect(await page.locator('#gathered .tile').count()).toBe(gathered - 1);
    await page.locator('[data-gather]').click();
    const box = (await page.locator('#canvas').boundingBox())!;
    const corner = (right: number, down: number): Promise<void> =>
      page.mouse.move(box.x + 2 + right * (box.width - 4), box.y + 2 + down * (box.height - 4));
    await page.locator('#map').scrollIntoViewIfNeeded();
    await corner(0, 0);
    await page.mouse.down();
    for (const [right, down] of [
      [1, 0],
      [1, 1],
      [0, 1],
    ] as const)
      await corner(right, down);
    await page.mouse.up();
    await page
      .locator('#gathered')
      .getByText(`${gathered - 1} of 25 images`)
      .waitFor();
    await page.locator('#filter').selectOption({ label: 'all images' });
    expect(await page.locator('#filtered').textContent()).toBe('');
    expect(problems).toEqual([]);
    await page.close();

    // The same page shows it when it is opened again.
    const again = await openPage(browser, served.url);
    expect(await again.page.locator('#filter optgroup[label="liked"] option').allTextContents()).toEqual([
      'no',
      'very',
      'yes',
    ]);
    await again.page.close();

    const probe = await runTapir([
      'probe',
      dataset,
      '--labels',
      'column:liked',
      '--kind',
      'centroid',
      '--json',
    ]);
    expect(JSON.parse(probe.stdout)).toMatchObject({ classes: ['no', 'very', 'yes'] });
    const where = ['--where', 'column:liked=yes', '--json'];
    const search = await runTapir(['search', dataset, '--path', 'sea/sea-0.jpg', ...where]);
    const { results } = JSON.parse(search.stdout) as { results: { hits: { path: string }[] }[] };
    const paths = results[0]!.hits.map(({ path }) => path);
    expect(paths).toHaveLength(gathered - 1);
    expect(paths.every((path) => path.startsWith('sea/'))).toBe(true);
    const dedupe = await runTapir(['dedupe', dataset, ...where]);
    expect(JSON.parse(dedupe.stdout)).toMatchObject({ compared: gathered - 1 });
    const wrong = await runTapir(['dedupe', dataset, '--where', 'column:liked=never']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/"no", "yes", "very"|"very"/);
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
