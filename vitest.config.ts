import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/announce.ts',
    // The built package is loaded as it is. (test/types.test-d.ts is compiled by `npm run types`.)
    server: { deps: { external: [/\/dist\/lib\//] } },
    // Threads of the runtime and several sessions at once: a process per file keeps them apart.
    pool: 'forks',
    maxWorkers: 2,
    // Prepared models go here, not into the cache of whoever runs the tests.
    env: { XDG_CACHE_HOME: join(tmpdir(), 'tapir-test-cache') },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
