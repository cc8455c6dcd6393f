/**
 * Builds the package from the sources that tsc has checked: the library and the command as a few files, which load in a third of
 * the time of their 250 modules, the scripts and styles of pages, and the types. Dependencies stay outside of the bundle.
 */
import { chmodSync, copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIB = path('dist/lib');
/** Name of a page, and its folder under src. */
const PAGES = {
  report: 'pages/report/page',
  explore: 'pages/explore/page',
  compare: 'precision/compare/page',
  train: 'train/folder/page',
};

/** Copies a declaration file, its map, and the declarations that it imports: what index.ts does not reach is not shipped. */
function copyTypes(file, copied = new Set()) {
  if (copied.has(file)) return;
  copied.add(file);
  mkdirSync(dirname(path(`dist/types/${file}`)), { recursive: true });
  for (const one of [file, `${file}.map`])
    copyFileSync(path(`build/modules/${one}`), path(`dist/types/${one}`));
  const text = readFileSync(path(`build/modules/${file}`), 'utf8');
  for (const [, from] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g))
    copyTypes(posix.join(posix.dirname(file), `${from}.d.ts`), copied);
}

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
      { in: path('src/images/lanes/decode-thread.ts'), out: 'decode-thread' },
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
  // A page is written into one file: its script and style stand beside the library until then.
  build({
    entryPoints: Object.entries(PAGES).flatMap(([page, folder]) => [
      { in: path(`src/${folder}/main.ts`), out: page },
      { in: path(`src/${folder}/page.css`), out: page },
    ]),
    outdir: path('dist/lib/page'),
    format: 'iife',
    bundle: true,
    target: 'es2022',
    logLevel: 'warning',
  }),
]);
copyTypes('index.d.ts');
// As npm does when it installs the package.
chmodSync(path('dist/lib/bin.cjs'), 0o755);
