/** The page in the system's browser. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compareModels } from 'onnx-tapir/precision';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserNote, hasBrowser, openPage, startBrowser } from '../../../support/browser.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';

const scratch = scratchFolder();

describe.runIf(hasBrowser)(`the page of a comparison${browserNote}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser.close());

  it('shows the numbers and pictures, switches its colours, and loads nothing', async () => {
    const model = join(scratch, 'model.onnx');
    const out = join(scratch, 'page.html');
    writeFileSync(model, tinyResNet());
    const other = { model, transform: { resize: 64, crop: 64, interpolation: 'bicubic' } } as const;
    await compareModels(model, other, projectPath('examples/photos'), {
      returnNodes: { avgpool: '<b>v</b>' },
      transform: { resize: 64, crop: 64 },
      out,
    });
    expect(readdirSync(scratch)).toContain('page.html');
    const { page, problems } = await openPage(browser, pathToFileURL(out).href);
    expect(await page.textContent('#outputs h2')).toBe('<b>v</b>');
    expect(await page.textContent('main > p')).toMatch(/^The vectors .* at least\.$/);
    expect(await page.textContent('#outputs')).toContain('recall@10');
    expect(await page.textContent('#pixels-title + p')).toContain('interpolation');
    const loaded = await page.$$eval('.picture', (pictures) =>
      pictures.map((picture) => (picture as unknown as { naturalWidth: number }).naturalWidth > 0),
    );
    expect(loaded).toEqual(Array.from({ length: 10 }, () => true));
    const before = await page.textContent('#theme');
    await page.click('#theme');
    expect(await page.textContent('#theme')).not.toBe(before);
    expect(problems).toEqual([]);
    await page.screenshot({
      path: process.env['TAPIR_SCREENSHOT'] ?? join(scratch, 'page.png'),
      fullPage: true,
    });
  });
});

it.skipIf(hasBrowser)('needs a browser', () => {
  expect(browserNote).not.toBe('');
});
