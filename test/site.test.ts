/** The site that `npm run docs` has built: every link leads somewhere, and it works in a browser from a file server without network. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join, posix } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { browserNote, hasBrowser, startBrowser } from './support/browser.js';
import { startServer } from './support/file-server.js';
import { projectPath } from './support/fixtures.js';

const site = projectPath('build/site');
const hasSite = existsSync(join(site, 'index.html'));
const note = hasSite ? '' : ' (NOT RUN: npm run docs builds it)';
const files = hasSite ? readdirSync(site, { recursive: true, encoding: 'utf8' }) : [];
const pages = files.filter((file) => file.endsWith('.html') && file !== '404.html');
const texts = new Map(pages.map((page) => [page, readFileSync(join(site, page), 'utf8')]));

function linksOf(page: string): string[] {
  const links = texts.get(page)!.matchAll(/ (?:href|src)="([^"]*)"/g);
  return Array.from(links, ([, link]) => link!.replaceAll('&amp;', '&')).filter(
    (link) => !/^(?:[a-z]+:|\/\/)/.test(link),
  );
}

function isBroken(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#');
  const target =
    path === ''
      ? page
      : posix.join(path.startsWith('/') ? '' : posix.dirname(page), path).replace(/^\/|\/$/g, '');
  const file = [target, posix.join(target, 'index.html')].find(
    (one) => files.includes(one) && statSync(join(site, one)).isFile(),
  );
  if (file === undefined) return true;
  return anchor !== undefined && anchor !== '' && !texts.get(file)?.includes(` id="${decodeURI(anchor)}"`);
}

describe.runIf(hasSite)(`the site's links${note}`, () => {
  it('lead to pages and headings that exist', () => {
    const broken = pages.flatMap((page) =>
      linksOf(page)
        .filter((link) => isBroken(page, link))
        .map((link) => `${page}: ${link}`),
    );
    expect(broken).toEqual([]);
    expect(isBroken('index.html', '#no-such-heading')).toBe(true);
    expect(isBroken('index.html', 'docs/gone.html')).toBe(true);
  });

  it('reach every guide, decision and chapter of the reference from the start page', () => {
    const linked = new Set(
      linksOf('index.html').map((link) => link.replace(/^\//, '').replace(/(?:\/|^)$/, 'index.html')),
    );
    const missing = pages.filter(
      (page) =>
        /^docs\/(?:guides|decisions|api)/.test(page) &&
        !linked.has(page) &&
        !linked.has(page.replace(/\.html$/, '')),
    );
    expect(missing).toEqual([]);
  });
});

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
};

describe.runIf(hasSite && hasBrowser)(`the site in a browser${note}${browserNote}`, () => {
  let browser: Browser;
  let url: string;
  const problems: string[] = [];
  beforeAll(async () => {
    browser = await startBrowser();
    const server = await startServer((request, response) => {
      const path = decodeURI(request.url!.split('?')[0]!).replace(/\/$/, '/index.html');
      const isThere = files.includes(path.slice(1));
      response.writeHead(isThere ? 200 : 404, { 'content-type': TYPES[extname(path)] ?? 'text/plain' });
      response.end(isThere ? readFileSync(join(site, path)) : '');
    });
    url = server.url;
  });
  afterAll(() => browser.close());

  async function open(path: string, width: number, colorScheme: 'light' | 'dark'): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.on('console', (message) => void (message.type() === 'error' && problems.push(message.text())));
    page.on('pageerror', (error) => void problems.push(error.message));
    page.on(
      'request',
      (request) =>
        void (
          request.url().startsWith(url) ||
          request.url().startsWith('data:') ||
          problems.push(request.url())
        ),
    );
    await page.goto(`${url}/${path}`, { waitUntil: 'networkidle' });
    return page;
  }

  it.each([
    ['', 'onnx-tapir'],
    ['docs/guides/tutorial.html', 'From torchvision in ten minutes'],
    ['docs/api/onnx-tapir.html', 'onnx-tapir'],
    ['docs/errors.html', 'Errors'],
  ])('shows /%s, wide and narrow, light and dark', async (path, title) => {
    for (const width of [1440, 390])
      for (const scheme of ['light', 'dark'] as const) {
        const page = await open(path, width, scheme);
        expect(await page.locator('h1').first().innerText()).toContain(title);
        expect(
          await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
        ).toBeLessThanOrEqual(0);
        // Code is not cut: long lines wrap.
        expect(
          await page.evaluate<number>(
            "[...document.querySelectorAll('.vp-doc pre')].filter((pre) => pre.scrollWidth > pre.clientWidth).length",
          ),
        ).toBe(0);
        const folder = process.env['SITE_SCREENSHOTS'];
        if (folder !== undefined)
          await page.screenshot({
            path: join(folder, `${path.replaceAll('/', '-') || 'start'}-${width}-${scheme}.png`),
          });
        await page.close();
      }
    expect(problems).toEqual([]);
  });

  it('finds layer4', async () => {
    const page = await open('', 1440, 'light');
    const input = page.locator('#localsearch-input');
    // A page that has not come alive yet does not hear the keys.
    const asks = async (): Promise<boolean> => {
      await page.keyboard.press('Control+k');
      return input.isVisible();
    };
    await expect.poll(asks, { timeout: 30_000, interval: 500 }).toBe(true);
    await input.fill('layer4');
    const hits = page.locator('#localsearch-list li[role=option]');
    await hits.first().waitFor();
    expect(await hits.count()).toBeGreaterThan(5);
    const folder = process.env['SITE_SCREENSHOTS'];
    if (folder !== undefined) await page.screenshot({ path: join(folder, 'search.png') });
    // The start page has hits of its own: only another page shows that a hit leads there.
    await hits.locator('a[href*=".html"]').first().click();
    await page.waitForURL(/\.html/);
    expect(await page.locator('main').innerText()).toContain('layer4');
    await page.close();
    expect(problems).toEqual([]);
  });
});
