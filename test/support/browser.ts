/** The system's browser, for tests of pages. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';

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
