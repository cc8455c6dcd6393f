/**
 * Makes what is shipped of what tsc has checked: the library and the command as few files that load in a third of the time of their
 * 250 modules, the report's page as one script, and the types. Packages stay outside, loaded as they are installed.
 */
import { chmodSync, copyFileSync, cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIB = path('dist/lib');

const common = { platform: 'node', target: 'node20', outdir: LIB, sourcemap: true, logLevel: 'warning' };
await Promise.all([
  build({
    ...common,
    // Threads and processes start from files of their own.
    entryPoints: [
      { in: path('src/index.ts'), out: 'index' },
      { in: path('src/cli/main.ts'), out: 'main' },
      { in: path('src/runtime/engines/lane-thread.ts'), out: 'lane-thread' },
      { in: path('src/runtime/engines/lane-process.ts'), out: 'lane-process' },
      { in: path('src/image/lanes/decode-thread.ts'), out: 'decode-thread' },
    ],
    format: 'esm',
    bundle: true,
    splitting: true,
    packages: 'external',
    chunkNames: 'part-[hash]',
    sourcesContent: false,
  }),
  build({
    ...common,
    entryPoints: [path('src/cli/bin.cts')],
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    sourcemap: false,
  }),
  build({
    entryPoints: [path('src/apps/report/page/main.ts')],
    outfile: path('dist/lib/page/page.js'),
    format: 'iife',
    bundle: true,
    target: 'es2022',
    logLevel: 'warning',
  }),
]);
copyFileSync(path('src/apps/report/page/page.css'), path('dist/lib/page/page.css'));
cpSync(path('build/modules'), path('dist/types'), {
  recursive: true,
  filter: (from) => !/\.[cm]?js(?:\.map)?$/.test(from),
});
// As npm does when it installs the package.
chmodSync(path('dist/lib/bin.cjs'), 0o755);
