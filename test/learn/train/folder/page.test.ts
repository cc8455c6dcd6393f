/** The page in the system's browser. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderTraining } from '../../../../src/learn/train/folder/render-training.js';
import type { EpochRecord } from '../../../../src/learn/train/folder/training-records.js';
import { browserNote, hasBrowser, openPage, startBrowser } from '../../../support/browser.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();

const epochs = Array.from({ length: 12 }, (_, i): EpochRecord => {
  const loss = 2.1 * 0.8 ** i;
  return {
    epoch: i + 1,
    training: { loss, accuracy: 1 - 0.8 * 0.75 ** i, rows: 480 },
    heldOut: { loss: loss + 0.15, accuracy: 0.93 - 0.7 * 0.7 ** i, rows: 120 },
    lr: 0.001 * (1 - i / 12),
    seconds: 12.5,
  };
});

async function writePage(shown: readonly EpochRecord[]): Promise<string> {
  const path = join(scratch, `training-${shown.length}.html`);
  const page = await renderTraining({
    title: 'pets.onnx',
    classes: [
      { name: '<i>cat</i>', training: 240, heldOut: 60 },
      { name: 'dog', training: 240, heldOut: 60 },
    ],
    epochs: shown,
    best: shown.at(-1)!,
    settings: { batch: 8 },
    failures: [{ path: 'cat/cut.jpg', code: 'IMAGE_TRUNCATED', message: 'it is cut off' }],
    judgement: {
      confusion: [
        [57, 3],
        [1, 59],
      ],
      wrong: [{ path: 'cat/<b>.jpg', label: 0, predicted: 1, probabilities: [0.9, 0.1], picture: null }],
    },
  });
  writeFileSync(path, page);
  return pathToFileURL(path).href;
}

describe.runIf(hasBrowser)(`the page of a training${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  it('shows curves, numbers and names, switches its colours, and loads nothing', async () => {
    const { page, problems } = await openPage(browser, await writePage(epochs));
    expect(await page.$$eval('.curve polyline', (lines) => lines.length)).toBe(4);
    const label = await page.getAttribute('.curve svg', 'aria-label');
    expect(label).toBe('Loss over 12 epochs: training from 2.1 to 0.1804; held-out from 2.25 to 0.3304');
    expect(await page.textContent('main')).toContain('<i>cat</i>');
    expect(await page.textContent('main')).toContain('cat/cut.jpg');
    expect(await page.locator('.confusion td').allTextContents()).toEqual(['', '57', '3', '1', '59']);
    expect(await page.textContent('.suspect')).toMatch(
      /predicted dog.*90\.0 %.*it is <i>cat<\/i>.*10\.0 %.*cat\/<b>\.jpg/s,
    );
    expect(await page.textContent('main > .lead')).toContain('held-out images are classified right');
    const before = await page.textContent('#theme');
    await page.click('#theme');
    expect(await page.textContent('#theme')).not.toBe(before);
    expect(problems).toEqual([]);
    await page.screenshot({
      path: process.env['TAPIR_SCREENSHOT'] ?? join(scratch, 'page.png'),
      fullPage: true,
    });
  });

  it('prints on white whatever the screen shows, and scrolls wide tables in their place', async () => {
    const { page } = await openPage(browser, await writePage(epochs), {
      colorScheme: 'dark',
      viewport: { width: 390, height: 800 },
    });
    const widths = await page.$eval('.wide', ({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth]);
    expect(widths[0]).toBeGreaterThan(widths[1]!);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    expect(
      await page.$$eval('.columns th', (heads) => heads.every(({ clientHeight }) => clientHeight < 40)),
    ).toBe(true);
    // As chosen by the reader, too.
    await page.click('#theme');
    await page.click('#theme');
    await page.emulateMedia({ media: 'print' });
    const colours = 'getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color';
    expect(await page.evaluate(colours)).toBe('rgb(255, 255, 255)rgb(34, 32, 28)');
  });

  it('draws one epoch, too', async () => {
    const { page, problems } = await openPage(browser, await writePage(epochs.slice(0, 1)));
    expect(await page.$$eval('.curve circle', (dots) => dots.length)).toBe(4);
    expect(await page.content()).not.toContain('NaN');
    expect(problems).toEqual([]);
  });
});

it.skipIf(hasBrowser)('needs a browser', () => {
  expect(browserNote).not.toBe('');
});
