import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/announce.ts',
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'], checker: 'tsc' },
    // Threads of the runtime and several sessions at once: a process per file keeps them apart.
    pool: 'forks',
    maxWorkers: 2,
    // Prepared models go here, not into the cache of whoever runs the tests.
    env: { XDG_CACHE_HOME: join(tmpdir(), 'tapir-test-cache') },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
