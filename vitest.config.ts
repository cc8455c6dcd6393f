import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { defineConfig } from 'vitest/config';

const TEST = join(import.meta.dirname, 'test');

/** Files that need the built package or another process, or modules that no other test has loaded. */
const NEEDS_BUILD = /'onnx-tapir|build\/modules|dist\/lib|node:child_process|vi\.mock\(/;

/**
 * More of them: modules of src that start a thread of the built package; pages in a browser; what a process does once; hostile input and
 * drawn cases, which take seconds.
 */
const ALSO_DEEP = new Set([
  'base/names/posix.test.ts',
  'hostile-files.test.ts',
  'datasets/formats/feature-files.test.ts',
  'datasets/sources/records/arrow-streams.test.ts',
  'learn/hub/wheels/install-cuda.test.ts',
  'learn/hub/wheels/install-engine.test.ts',
  'learn/hub/wheels/unpack-wheel.test.ts',
  'photos/images/decode/decode.test.ts',
  'photos/images/formats/headers.test.ts',
  'photos/images/jpeg/jpeg.test.ts',
  'photos/images/resample/resample.test.ts',
  'learn/parameters/mutants.test.ts',
  'run/runtime/devices/cuda-libraries.test.ts',
  'run/runtime/devices/probe.test.ts',
  'run/runtime/prepare-model.test.ts',
  'learn/train/folder/page.test.ts',
]);

const needing = new Map<string, boolean>();

/** Whether a test, or what it takes from test/support, needs the built package or another process. */
function needsBuild(path: string): boolean {
  const known = needing.get(path);
  if (known !== undefined) return known;
  needing.set(path, false);
  const text = readFileSync(path, 'utf8');
  const imports = Array.from(text.matchAll(/from '(\.[^']+)\.js'/g), ([, file]) =>
    join(dirname(path), `${file}.ts`),
  );
  const needs = NEEDS_BUILD.test(text) || imports.some((file) => file.startsWith(TEST) && needsBuild(file));
  needing.set(path, needs);
  return needs;
}

const tests = readdirSync(TEST, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => join(TEST, path));
const isDeep = (path: string): boolean =>
  ALSO_DEEP.has(relative(TEST, path).replaceAll('\\', '/')) || needsBuild(path);
const listed = (paths: readonly string[]): string[] =>
  paths.map((path) => relative(import.meta.dirname, path));

export default defineConfig({
  test: {
    globalSetup: 'test/support/announce.ts',
    setupFiles: 'test/support/equal-arrays.ts',
    // The built package is loaded as it is. (test/types.test-d.ts is compiled by `npm run types`.)
    server: { deps: { external: [/\/dist\/lib\//] } },
    // Threads of the runtime and several sessions at once: a process per file keeps those of `deep` apart.
    pool: 'forks',
    maxWorkers: 2,
    // V8 compiles functions ten times later: tests call most of them too seldom for it to pay (5 % of the CPU time).
    execArgv: ['--interrupt-budget=660000'],
    // Prepared models go here, not into the cache of whoever runs the tests.
    env: { XDG_CACHE_HOME: join(tmpdir(), 'tapir-test-cache') },
    // Rounds before a release take minutes.
    testTimeout: process.env['TAPIR_RELEASE'] === undefined ? 60_000 : 900_000,
    hookTimeout: 60_000,
    // A machine that others use may stall a test. scripts/report-tests.js names those that needed the second try.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    projects: [
      // Pure functions share a process: to load them anew for each file takes as long as the tests.
      {
        extends: true,
        test: { name: 'unit', isolate: false, include: listed(tests.filter((path) => !isDeep(path))) },
      },
      { extends: true, test: { name: 'deep', include: listed(tests.filter(isDeep)) } },
    ],
  },
});
