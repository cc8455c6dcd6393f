/** The whole report: written by the command, opened from disk in a browser. */
import {
  cpSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createFeatureExtractor, createTransform, embedFolder, type Tensor } from 'onnx-tapir';
import { drawFeatures } from 'onnx-tapir/explain';
import { writeReport, type ReportSummary } from 'onnx-tapir/pages';
import type { Browser, Page } from 'playwright-core';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDataset } from '../../../../src/datasets/files/dataset.js';
import { decodeNumbers } from '../../../../src/base/html/browser/decode-numbers.js';
import type { PageData } from '../../../../src/products/pages/report/page/data.js';
import { fitPoints, MAP_MARGIN } from '../../../../src/products/pages/report/page/geometry.js';
import {
  browserNote,
  hasBrowser,
  openPage,
  startBrowser,
  type OpenedPage,
} from '../../../support/browser.js';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { someOf } from '../../../support/rounds.js';
import { runTapir, type Ended } from '../../../support/run.js';

const scratch = scratchFolder();
const photos = join(scratch, 'photos');
const dataset = join(scratch, 'vectors');
const page = join(dataset, 'report.html');
/** Its path holds what would end a script, and a handler. */
const hostile = 'odd</script><img src=x onerror=alert(1)>\u2028\u202e🚀\'".jpg';

/** As the page spells it. */
const spelt = hostile.replace('\u2028', '\\u2028').replace('\u202e', '\\u202e');

let made: Ended;

beforeAll(async () => {
  cpSync(projectPath('examples/photos'), photos, {
    recursive: true,
    filter: (file) => !file.endsWith('.ts'),
  });
  mkdirSync(join(photos, 'odd<'));
  const sea = join(photos, 'sea/sea-0.jpg');
  copyFileSync(sea, join(photos, hostile));
  copyFileSync(sea, join(photos, 'sea/copy.jpg'));
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'dunes/cut.jpg'));
  writeFileSync(join(photos, 'zero.jpg'), '');
  // A file for each month of two years; the metadata records when.
  const files = readdirSync(photos, { recursive: true, encoding: 'utf8' }).toSorted();
  for (const [month, file] of files.entries()) {
    const time = new Date(Date.UTC(2023, month % 24, 15));
    utimesSync(join(photos, file), time, time);
  }
  const extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding', layer3: 'map/3' });
  const transform = createTransform({ resize: 64, crop: 64 });
  await embedFolder(extractor, photos, { out: dataset, transform });
  await extractor.close();
  made = await runTapir(['report', dataset, '--images', photos]);
});

const dataOf = (file: string): PageData => {
  const text = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(
    readFileSync(file, 'utf8'),
  )![1]!;
  return JSON.parse(text) as PageData;
};

describe('tapir report', () => {
  it.each(['list.txt', '*/*-0.jpg'])('finds the photos of %s by itself', async (source) => {
    const folder = scratchFolder();
    cpSync(projectPath('examples/photos/sea'), join(folder, 'sea'), { recursive: true });
    writeFileSync(join(folder, 'list.txt'), 'sea/sea-0.jpg\n');
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding' });
    const transform = createTransform({ resize: 64, crop: 64 });
    await embedFolder(extractor, join(folder, source), { out: join(folder, 'vectors'), transform });
    expect(await writeReport(join(folder, 'vectors'))).toMatchObject({ images: 1, pictures: 1 });
  });

  it('draws what outputs with places see, in the colours of drawFeatures', async () => {
    const shown = readFileSync(page, 'utf8').split('id="features-section"')[1]!.split('</section>')[0]!;
    const drawn = [...shown.matchAll(/data:image\/png;base64,([^"]+)/g)].map(([, text]) =>
      Buffer.from(text!, 'base64'),
    );
    expect(shown).toContain('map/3');
    expect(shown).not.toContain('embedding');
    const opened = await openDataset(dataset);
    const maps: Tensor[] = [];
    for await (const { rows, dims, data } of opened.blocks('map/3'))
      for (let row = 0; row < rows; row++)
        maps.push({
          dtype: 'float32',
          dims: [1, ...dims],
          data: data.slice((row * data.length) / rows, ((row + 1) * data.length) / rows),
        });
    const chosen = Array.from({ length: 12 }, (_, i) => maps[Math.floor(((i + 0.5) * maps.length) / 12)]!);
    const strip = await sharp(await drawFeatures(chosen))
      .raw()
      .toBuffer({ resolveWithObject: true });
    expect(drawn).toHaveLength(12);
    for (const [i, png] of drawn.entries()) {
      const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
      expect([info.height, info.width]).toEqual([4, 4]);
      for (let place = 0; place < 16; place++) {
        const [y, x] = [16 * Math.floor(place / 4), 64 * i + 16 * (place % 4)];
        const at = 3 * (y * strip.info.width + x);
        expect(data.subarray(3 * place, 3 * place + 3)).toEqual(strip.data.subarray(at, at + 3));
      }
    }
  });

  it('lists the near-duplicates of the whole dataset when it is asked to', async () => {
    const out = join(scratch, 'duplicates.html');
    const flags = [
      '--out',
      out,
      '--output',
      'embedding',
      '--set',
      'duplicates=0.9999',
      '--set',
      'umap=false',
      '--json',
    ];
    const ended = await runTapir(['report', dataset, '--images', photos, ...flags]);
    expect(ended.code, ended.stderr).toBe(0);
    const { duplicates } = JSON.parse(ended.stdout) as ReportSummary;
    expect(duplicates).toMatchObject([{ key: 'embedding', cosine: 0.9999, compared: 26 }]);
    const group = duplicates[0]!.groups.find(({ best, copies }) =>
      [best, ...copies].some(({ path }) => path === 'sea/copy.jpg'),
    )!;
    expect(new Set([group.best, ...group.copies].map(({ path }) => path))).toEqual(
      new Set(['sea/copy.jpg', 'sea/sea-0.jpg', hostile]),
    );
    const html = readFileSync(out, 'utf8');
    expect(html).toContain('Among all images');
    expect(html).toContain('every pair of 26 images was compared');
    // The hostile path is text.
    expect(html).not.toContain('<img src=x');
    expect(readFileSync(page, 'utf8')).not.toContain('Among all images');
    const wrong = await runTapir(['report', dataset, '--set', 'duplicates=2', '--out', out]);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('--set duplicates must be a number above 0');
  });

  it('writes one file into the dataset, the same bytes every time', async () => {
    expect(made, made.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(made.stdout).toMatch(/report\.html: 26 images, 26 with a picture, [\d.]+ kB\n$/);
    const first = readFileSync(page);
    const again = join(scratch, 'again.html');
    expect(await runTapir(['report', dataset, '--images', photos, '--out', again])).toMatchObject({
      code: 0,
    });
    expect(readFileSync(again).equals(first)).toBe(true);
    expect(first.toString()).not.toMatch(/https?:\/\//);
  });

  it('makes a smaller one if asked', async () => {
    const out = join(scratch, 'small.html');
    const flags = [
      '--out',
      out,
      '--set',
      'sample=7',
      '--set',
      'umap=false',
      '--output',
      'embedding',
      '--json',
    ];
    const { code, stdout } = await runTapir(['report', dataset, ...flags]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ path: out, images: 7, bytes: statSync(out).size });
    const { images, outputs } = dataOf(out);
    expect(outputs.map(({ key, umap }) => [key, umap])).toEqual([['embedding', null]]);
    expect(images.rows).toHaveLength(7);
    expect(images.rows).toEqual(images.rows.toSorted((a, b) => a - b));
  });

  it('has placeholders for images that are gone', async () => {
    const empty = join(scratch, 'empty');
    mkdirSync(empty);
    copyFileSync(join(photos, hostile), join(empty, hostile.replace('/', '')));
    const out = join(scratch, 'gone.html');
    const ended = await runTapir(['report', dataset, '--images', empty, '--out', out]);
    expect(ended).toMatchObject({
      code: 0,
      stderr: 'note: 26 images could not be read again and have no picture.\n',
    });
    expect(dataOf(out).images.thumbnails).toEqual({});
  });

  it.each([
    ['an output that is not there', ['--output', 'nothing'], 2, /"embedding", "map\/3".*OPTION_INVALID/],
    ['a sample of 0', ['--set', 'sample=0'], 2, /1 to 200000, got 0/],
    ['a sample that is no number', ['--set', 'sample=some'], 2, /--set sample.*integer/],
    ['colours of nothing', ['--colour-by', 'nothing'], 2, /colour-?by.*"column:NAME"/i],
    ['images that are no folder', ['--images', page], 2, /no folder.*SOURCE_INVALID/],
    ['to replace the manifest', ['--out', join(dataset, 'manifest.json')], 4, /OUTPUT_EXISTS/],
    ['to write where nothing can be', ['--out', join(dataset, 'manifest.json/x')], 4, /OUTPUT_UNWRITABLE/],
  ])('refuses %s', async (_what, flags, code, message) => {
    const ended = await runTapir(['report', dataset, ...flags]);
    expect(ended.stderr).toMatch(message);
    expect(ended.code).toBe(code);
  });

  it('refuses a folder that is no dataset', async () => {
    expect((await runTapir(['report', photos])).stderr).toMatch(/DATASET_INVALID/);
    expect(existsSync(join(photos, 'report.html'))).toBe(false);
  });
});

/**
 * Runs in the page, so it is text: this program knows no DOM. Of a copy of the canvas, so that the browser does not advise the page
 * to have its own read.
 */
const COUNT_DRAWN = `(() => {
  const canvas = document.querySelector('#canvas');
  const { width, height } = canvas;
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, width, height);
  const colours = new Set();
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] < 200) continue;
    pixels++;
    colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  }
  return { pixels, colours: colours.size };
})()`;

/** WCAG's contrast of each colour of the map with the map's ground. */
const CONTRASTS = `(() => {
  const probe = document.createElement('span');
  document.body.append(probe);
  const luminance = (name) => {
    probe.style.color = 'var(--' + name + ')';
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = luminance('raised');
  const names = [
    ...['edge', 'accent'],
    ...Array.from({ length: 20 }, (_, i) => 'folder-' + i),
    ...Array.from({ length: 13 }, (_, i) => 'step-' + i),
  ];
  return Object.fromEntries(names.map((name) => {
    const [low, high] = [luminance(name), ground].sort((a, b) => a - b);
    return [name, (high + 0.05) / (low + 0.05)];
  }));
})()`;

/** The eight nearest of an image in float64, by its path. */
async function exactNeighbours(path: string): Promise<string[]> {
  const opened = await openDataset(dataset);
  const vectors = new Map<number, number[]>();
  for await (const { firstRow, rows, data } of opened.blocks('embedding'))
    for (let row = 0; row < rows; row++)
      vectors.set(firstRow + row, [
        ...data.subarray((row * data.length) / rows, ((row + 1) * data.length) / rows),
      ]);
  const all: { path: string; vector: number[] }[] = [];
  for await (const { path: other, row } of opened.rows())
    if (row !== null) all.push({ path: other === hostile ? spelt : other!, vector: vectors.get(row)! });
  const own = all.find((item) => item.path === path)!.vector;
  const cosine = (vector: number[]): number =>
    vector.reduce((sum, value, i) => sum + value * own[i]!, 0) / (Math.hypot(...vector) * Math.hypot(...own));
  return all
    .filter((item) => item.path !== path)
    .toSorted((a, b) => cosine(b.vector) - cosine(a.vector))
    .slice(0, 8)
    .map((item) => item.path);
}

describe.skipIf(!hasBrowser)(`the page in a browser${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
    mkdirSync(projectPath('out'), { recursive: true });
  });
  afterAll(() => browser.close());

  const open = (colorScheme: 'light' | 'dark' = 'light', width = 1280): Promise<OpenedPage> =>
    openPage(browser, pathToFileURL(page).href, {
      colorScheme,
      viewport: { width, height: 900 },
      reducedMotion: 'reduce',
    });

  /** Colours drawn on the map, and how many pixels are. */
  const drawn = (opened: Page): Promise<{ pixels: number; colours: number }> => opened.evaluate(COUNT_DRAWN);
  const background = (opened: Page): Promise<string> =>
    opened.evaluate('getComputedStyle(document.body).backgroundColor');
  const neighbours = (opened: Page): Promise<(string | null)[]> =>
    opened.locator('#panel .tile').evaluateAll((tiles) => tiles.map((tile) => tile.getAttribute('title')));

  const windows = [
    ['light', 1280],
    ['dark', 1280],
    ['dark', 390],
  ] as const;
  it.each(someOf(windows, 2))(
    'is drawn in %s at a width of %i, without a fault or a request',
    async (scheme, width) => {
      const { page: opened, problems } = await open(scheme, width);
      // Dots have a few hundred colours at their edges; pictures have thousands.
      await expect.poll(async () => (await drawn(opened)).colours).toBeGreaterThan(2000);
      expect(await opened.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
      await opened.locator('[data-marks="dots"]').click();
      await expect.poll(async () => (await drawn(opened)).colours).toBeLessThan(1500);
      const { pixels, colours } = await drawn(opened);
      expect(pixels).toBeGreaterThan(500);
      expect(colours).toBeGreaterThan(5);
      await opened.locator('[data-marks="pictures"]').click();
      const before = await background(opened);
      await opened.locator('#theme').click();
      expect(await background(opened)).not.toBe(before);
      await opened.locator('#theme').click();
      await opened.screenshot({ path: projectPath(`out/report-${scheme}-${width}.png`), fullPage: true });
      expect(problems).toEqual([]);
      await opened.close();
    },
  );

  it('opens on UMAP and pictures, with the legend in sight and the first image chosen', async () => {
    const { page: opened, problems } = await open();
    const pressed = await opened.locator('.toolbar [aria-pressed="true"]').allTextContents();
    expect(pressed).toEqual(['UMAP', 'Pictures']);
    const legend = (await opened.locator('#legend').boundingBox())!;
    const map = (await opened.locator('#map').boundingBox())!;
    expect(legend.height).toBeGreaterThan(20);
    expect(legend.y + legend.height).toBeLessThanOrEqual(map.y);
    expect(await opened.locator('.panel-name').textContent()).toBe(
      dataOf(page).images.names[0]!.split('/').at(-1),
    );
    expect(await neighbours(opened)).toEqual(await exactNeighbours(dataOf(page).images.names[0]!));
    expect(await opened.locator('.chapter', { hasText: 'Model' }).textContent()).toMatch(/size[\d.]+ [kM]B/);
    expect(problems).toEqual([]);
    await opened.close();
  });

  it.each(someOf(['light', 'dark'] as const, 2))(
    'draws dots and edges that stand out from the page, in %s',
    async (scheme) => {
      const { page: opened, problems } = await open(scheme);
      const ratios: Record<string, number> = await opened.evaluate(CONTRASTS);
      expect(Object.keys(ratios).length).toBe(35);
      for (const [name, ratio] of Object.entries(ratios)) expect(ratio, name).toBeGreaterThanOrEqual(3);
      expect(problems).toEqual([]);
      await opened.close();
    },
  );

  it('shows the nearest images of the point that is clicked', async () => {
    const { page: opened, problems } = await open();
    await opened.locator('[data-projection="pca"]').click();
    await opened.locator('[data-marks="dots"]').click();
    const { images, outputs } = dataOf(page);
    const { clientWidth, clientHeight } = await opened
      .locator('#map')
      .evaluate(({ clientWidth: w, clientHeight: h }) => ({ clientWidth: w, clientHeight: h }));
    const places = fitPoints(
      decodeNumbers(Float32Array, outputs[0]!.pca),
      clientWidth,
      clientHeight,
      MAP_MARGIN,
    );
    const members = decodeNumbers(Uint32Array, outputs[0]!.members);
    const gap = (a: number, b: number): number =>
      Math.hypot(places[2 * a]! - places[2 * b]!, places[2 * a + 1]! - places[2 * b + 1]!);
    const points = [...members.keys()];
    const alone = points
      .map((a) => ({ a, gap: Math.min(...points.filter((b) => b !== a).map((b) => gap(a, b))) }))
      .toSorted((x, y) => y.gap - x.gap);
    for (const { a } of alone.slice(0, 3)) {
      const position = { x: places[2 * a]!, y: places[2 * a + 1]! };
      await opened.locator('#map').hover({ position });
      const name = images.names[members[a]!]!;
      expect(await opened.locator('#tip .tip-name').textContent()).toBe(name);
      await opened.locator('#map').click({ position });
      expect(await neighbours(opened)).toEqual(await exactNeighbours(name));
    }
    // Its copies are the nearest, and said to be the same.
    await opened.locator('#map').click({ position: { x: 2, y: 2 } });
    expect(await opened.locator('#panel .tile').count()).toBe(0);
    expect(problems).toEqual([]);
    await opened.close();
  });

  it('is moved through by keys', async () => {
    const { page: opened, problems } = await open();
    const map = opened.locator('#map');
    await map.focus();
    await opened.keyboard.press('ArrowRight');
    const first = await opened.locator('#live').textContent();
    expect(dataOf(page).images.names).toContain(first);
    expect(await opened.locator('#tip').isVisible()).toBe(true);
    await opened.keyboard.press('ArrowLeft');
    expect(await opened.locator('#live').textContent()).not.toBe(first);
    const name = (await opened.locator('#tip .tip-name').textContent())!;
    await opened.keyboard.press('Enter');
    expect(await neighbours(opened)).toEqual(await exactNeighbours(name));
    expect(await opened.locator('#live').textContent()).toContain('8 nearest images are');
    // The first neighbour has the focus: Enter goes on to its neighbours, Escape back to the map.
    const [next] = await neighbours(opened);
    await opened.keyboard.press('Enter');
    expect(await neighbours(opened)).toEqual(await exactNeighbours(next!));
    await opened.keyboard.press('Escape');
    expect(await opened.evaluate('document.activeElement.id')).toBe('map');
    expect(await opened.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await opened.keyboard.press('+');
    expect(await map.getAttribute('class')).toContain('zoomed');
    await opened.keyboard.press('0');
    expect(await map.getAttribute('class')).not.toContain('zoomed');
    expect(problems).toEqual([]);
    await opened.close();
  });

  it('lists near-duplicates, failures and hostile names as they are', async () => {
    const { page: opened, problems } = await open();
    const group = opened.locator('.group', { has: opened.locator('.badge') });
    expect(await group.count()).toBe(1);
    const titles = await group
      .locator('.tile.identical')
      .evaluateAll((tiles) => tiles.map((tile) => tile.getAttribute('title')));
    expect(titles).toEqual([spelt, 'sea/copy.jpg', 'sea/sea-0.jpg']);
    await group.locator('.tile').first().click();
    expect(await opened.locator('#panel .tile').first().getAttribute('aria-label')).toContain(
      'identical features',
    );
    expect(await opened.locator('img[src="x"]').count()).toBe(0);
    const listed = opened.locator('details.failures li:visible');
    // A group per code; all of them opened.
    for (const closed of await opened.locator('details.failures:not([open]) summary').all())
      await closed.click();
    const paths = await listed.locator('.path').allTextContents();
    expect(paths.toSorted()).toEqual(['dunes/cut.jpg', 'zero.jpg']);
    await opened.locator('#failure-search').fill('EMPTY');
    expect(await listed.locator('.path').allTextContents()).toEqual(['zero.jpg']);
    expect(problems).toEqual([]);
    await opened.close();
  });

  it('colours by what it knows, isolates, gathers by name and by drawing around, and gives the list', async () => {
    const { page: opened, problems } = await open();
    const columns = await opened.locator('#colour-by option').allTextContents();
    expect(columns).toEqual([
      'folder',
      'date of the file',
      'cluster',
      'mean distance to its neighbours',
      'length of the vector',
    ]);
    await opened.locator('[data-marks="dots"]').click();
    const before = await drawn(opened);
    const times: number[] = [];
    for await (const { row, stamp } of (await openDataset(dataset)).rows())
      if (row !== null) times.push(stamp!.modifiedMs!);
    const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10);
    for (const [label, ends] of [
      ['date of the file', [dayOf(Math.min(...times)), dayOf(Math.max(...times))]],
      ['length of the vector', undefined],
    ] as const) {
      await opened.locator('#colour-by').selectOption({ label });
      const labels = await opened
        .locator('#legend .step')
        .evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')!));
      const counts = labels.map((one) => Number(/: (\d+) images$/.exec(one)![1]));
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(26);
      if (ends) expect(await opened.locator('#legend .small').allTextContents()).toEqual(ends);
    }
    await opened.locator('#legend .step').first().click();
    await expect.poll(() => drawn(opened)).not.toEqual(before);
    await opened.locator('#colour-by').selectOption({ label: 'folder' });
    const { names } = dataOf(page).images;
    const inSea = names.filter((name) => name.includes('sea/'));
    await opened.locator('#find-image').fill('SEA/');
    expect(await opened.locator('#gathered .tile').count()).toBe(inSea.length);
    expect(await opened.locator('#gathered [role=status]').textContent()).toBe(
      `${inSea.length} of 26 images`,
    );
    // All points lie within the outermost pixels; the list has paths as they are in the dataset.
    await opened.locator('#find-image').fill('');
    await opened.locator('[data-gather]').click();
    await opened.evaluate("document.querySelector('#map').scrollIntoView()");
    const box = (await opened.locator('#map').boundingBox())!;
    await opened.mouse.move(box.x + 20, box.y + 20);
    await opened.mouse.down();
    for (const [x, y] of [
      [1, 0],
      [1, 1],
      [0, 1],
    ] as const)
      await opened.mouse.move(box.x + 20 + x * (box.width - 40), box.y + 20 + y * (box.height - 40), {
        steps: 3,
      });
    await opened.mouse.up();
    expect(await opened.locator('#gathered [role=status]').textContent()).toBe('26 of 26 images');
    const [download] = await Promise.all([
      opened.waitForEvent('download'),
      opened.getByRole('button', { name: 'Save as a list' }).click(),
    ]);
    const listed = readFileSync(await download.path(), 'utf8')
      .trimEnd()
      .split('\n');
    const paths: string[] = [];
    for await (const row of (await openDataset(dataset)).rows()) if (row.row !== null) paths.push(row.path!);
    expect(listed).toEqual(paths);
    expect(problems).toEqual([]);
    await opened.close();
  });

  it('shows one output at a time, by PCA and by UMAP', async () => {
    const { page: opened, problems } = await open();
    await opened.locator('[data-projection="pca"]').click();
    expect(await opened.locator('#map-note').textContent()).toMatch(/^PCA .* 26 vectors of 128 numbers\.$/);
    const before = await drawn(opened);
    await opened.locator('[data-projection="umap"]').click();
    expect(await opened.locator('#map-note').textContent()).toMatch(/^UMAP/);
    await expect.poll(() => drawn(opened)).not.toEqual(before);
    await opened.locator('#output').selectOption({ label: 'map/3' });
    expect(await opened.locator('#map-note').textContent()).toMatch(/each the mean over space/);
    expect(await opened.locator('.output-name:visible').allTextContents()).toEqual(['map/3']);
    expect(problems).toEqual([]);
    await opened.close();
  });
});
