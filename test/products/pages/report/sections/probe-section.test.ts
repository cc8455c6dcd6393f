/** A probe on the report's page, in a real browser: its figures, its pictures, and labels that would be markup. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { predictProbe, saveProbe, trainProbe, type Probe } from 'onnx-tapir/features';
import { writeReport } from 'onnx-tapir/pages';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderProbe } from '../../../../../src/products/pages/report/sections/probe-section.js';
import { browserNote, hasBrowser, openPage, startBrowser } from '../../../../support/browser.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../../support/fixtures.js';
import { copyPhotos } from '../../../../support/photos.js';
import { runTapir } from '../../../../support/run.js';

const scratch = scratchFolder();
const [photos, dataset, page] = [
  join(scratch, 'photos'),
  join(scratch, 'vectors'),
  join(scratch, 'map.html'),
];
const HOSTILE = '<img src=x onerror=alert(1)></script>';

let byFolder: Probe;
let hostile: Probe;

beforeAll(async () => {
  mkdirSync(photos);
  copyPhotos(photos);
  await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'embedding' });
  await embedFolder(extractor, photos, { out: dataset, transform: { resize: 64, crop: 64 } });
  const opened = await openDataset(dataset);
  byFolder = await trainProbe(opened, 'by-folder', { kind: 'centroid', folds: 4 });
  const labels = new Map<string, string>();
  for await (const { path } of opened.rows()) labels.set(path!, path!.startsWith('sea') ? HOSTILE : 'other');
  // One label is wrong on purpose.
  labels.set('sea/sea-0.jpg', 'other');
  hostile = await trainProbe(opened, labels, { kind: 'knn', neighbours: 1, folds: 4 });
});

it('shows a dash where a file holds no score: the only image of a class has no centroid but its own', () => {
  const [first] = hostile.results!.suspects;
  const results = { ...hostile.results!, suspects: [{ ...first!, givenScore: -Infinity }] };
  const probe = JSON.parse(JSON.stringify({ ...hostile, results })) as Probe;
  const suspects = probe.results!.suspects.map((suspect) => ({ suspect, picture: null }));
  expect(renderProbe({ probe, suspects }).text).toContain('<span>–</span>');
});

describe.skipIf(!hasBrowser)(`a probe on the page${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  it.each(['light', 'dark'] as const)('has its classes, confusions and map, in %s', async (colorScheme) => {
    await saveProbe(byFolder, join(scratch, 'probe.json'), { overwrite: true });
    const flags = [
      '--images',
      photos,
      '--probe',
      join(scratch, 'probe.json'),
      '--out',
      page,
      '--set',
      'umap=false',
    ];
    expect(await runTapir(['report', dataset, ...flags])).toMatchObject({ code: 0 });
    const { page: opened, problems } = await openPage(browser, pathToFileURL(page).href, { colorScheme });
    const cells = await opened
      .locator('.confusion tbody tr')
      .evaluateAll((rows) =>
        rows.map((row) => [...row.querySelectorAll('td')].map((cell) => Number(cell.textContent || 0))),
      );
    expect(cells).toEqual(byFolder.results!.confusion);
    const names = await opened.locator('.columns tbody th').allTextContents();
    expect(names).toEqual(byFolder.classes);
    // The legend is of labels.
    for (const name of byFolder.classes)
      expect(await opened.locator('#legend').textContent()).toContain(name);
    const predicted = new Map<string, number>();
    for await (const { data, rows } of (await openDataset(dataset)).blocks('embedding'))
      for (let row = 0; row < rows; row++) {
        const width = data.length / rows;
        const { label } = predictProbe(byFolder, data.subarray(row * width, (row + 1) * width));
        predicted.set(label, (predicted.get(label) ?? 0) + 1);
      }
    await opened.locator('#colour-by').selectOption({ label: 'prediction' });
    const entries = await opened.locator('#legend button').allTextContents();
    expect(entries.toSorted()).toEqual([...predicted].map(([label, count]) => label + count).toSorted());
    await opened.locator('#probe-section').screenshot({ path: projectPath(`out/probe-${colorScheme}.png`) });
    expect(problems).toEqual([]);
    await opened.close();
  });

  it('shows labels that would be markup as text, and suspects with pictures', async () => {
    await writeReport(dataset, { images: photos, probe: hostile, out: page, umap: false });
    const { page: opened, problems } = await openPage(browser, pathToFileURL(page).href);
    expect(await opened.locator('.columns tbody th').allTextContents()).toEqual(hostile.classes);
    expect(await opened.locator('img[src="x"]').count()).toBe(0);
    const { suspects, suspectCount } = hostile.results!;
    expect(suspectCount).toBeGreaterThan(0);
    expect(await opened.locator('.suspect').count()).toBe(suspects.length);
    expect(await opened.locator('.suspect img').count()).toBe(suspects.length);
    expect(await opened.locator('.suspect .path').allTextContents()).toEqual(
      suspects.map(({ path }) => path),
    );
    expect(problems).toEqual([]);
    await opened.close();
  });
});
