import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/announce.ts',
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'], checker: 'tsc' },
    // Threads of the runtime and several sessions at once: a process per file keeps them apart.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
