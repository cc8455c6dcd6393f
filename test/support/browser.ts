/** The system's browser, for tests of pages. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

function findChromium(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const files = NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return files.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const file = findChromium();
const advice = `no ${NAMES.join(', ')} is in PATH; install one, on Debian: apt-get install chromium`;
if (file === undefined && process.env['CI'] === 'true') throw new Error(`pages cannot be tested: ${advice}`);

/** Whether pages can be tested here. */
export const hasBrowser: boolean = file !== undefined;

/** For the titles of suites that need it, so that a report says what did not run. */
export const browserNote: string = hasBrowser ? '' : ` (NOT RUN: ${advice})`;

/** Starts the browser, headless. Its own sandbox is off: containers, where tests run as root, have no room for it. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: file!, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/** A page, and what is wrong with it so far. */
export interface OpenedPage {
  readonly page: Page;
  /** What it logged or threw, its dialogs, and what it asked of another place. */
  readonly problems: readonly string[];
}

/** Opens a page, as a window of 1,280 × 900 unless the options say otherwise. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const problems: string[] = [];
  page.on('console', (message) => problems.push(message.text()));
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('dialog', (dialog) => {
    problems.push(dialog.message());
    void dialog.dismiss();
  });
  const { origin, protocol } = new URL(url);
  const isOwn = (to: string): boolean => to === url || (protocol !== 'file:' && to.startsWith(`${origin}/`));
  page.on('request', (request) => {
    const to = request.url();
    if (!isOwn(to) && !/^(?:data|blob):/.test(to)) problems.push(to);
  });
  await page.goto(url);
  return { page, problems };
}
