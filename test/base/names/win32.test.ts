/** Names of files with the paths of Windows, on any system: `node:path` is its twin for Windows here, and URLs are read as there. */
import type * as Url from 'node:url';
import { describe, vi } from 'vitest';
import { testNames } from '../../support/name-cases.js';

vi.mock('node:path', () => import('node:path/win32'));
vi.mock('node:url', async (load) => {
  const url = await load<typeof Url>();
  const own = url.pathToFileURL(process.cwd()).href;
  // The package finds its own files when it is loaded.
  const read = (given: string | URL): string =>
    url.fileURLToPath(given, { windows: !String(given).startsWith(own) });
  return { ...url, fileURLToPath: read };
});

describe('10,000 random paths on Windows', () => testNames('win32'));
