/**
 * Builds the package from the sources that tsc has checked: the library and the command as a few files, which load in a third of
 * the time of their 250 modules, the scripts and styles of pages, and the types. Dependencies stay outside of the bundle.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { joinChunks } from './join-chunks.js';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIB = path('dist/lib');
/** The entries of the package, and the module of each, without its extension: the main one, and a room each. */
const ENTRIES = Object.entries(JSON.parse(readFileSync(path('package.json'), 'utf8')).exports)
  .filter(([entry]) => entry !== './package.json')
  .map(([entry, { types }]) => ({
    name: entry === '.' ? 'index' : entry.slice(2),
    module: /^\.\/dist\/types\/(.*)\.d\.ts$/.exec(types)[1],
  }));
/** Name of a page, and its script and style under src. */
const PAGES = {
  report: ['products/pages/report/page/main.ts', 'products/pages/report/page/page.css'],
  explore: ['products/pages/explore/page/main.ts', 'products/pages/explore/page/page.css'],
  compare: ['base/html/browser/plain-page.ts', 'products/precision/compare/page.css'],
  check: ['base/html/browser/plain-page.ts', 'products/precision/compare/page.css'],
  train: ['base/html/browser/plain-page.ts', 'learn/train/folder/page.css'],
};

/** What every command loads after main.ts, and what `tapir embed` loads then. */
const STARTS = [['src/cli/program.ts', 'src/cli/flags/name-flags.ts'], ['src/cli/commands/embed/embed.ts']];

/** Copies a declaration file and those that it imports: what no entry reaches is not shipped. */
function copyTypes(file, copied) {
  if (copied.has(file)) return;
  copied.add(file);
  mkdirSync(dirname(path(`dist/types/${file}`)), { recursive: true });
  const text = readFileSync(path(`build/modules/${file}`), 'utf8');
  writeFileSync(path(`dist/types/${file}`), text);
  for (const [, from] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g))
    copyTypes(posix.join(posix.dirname(file), `${from}.d.ts`), copied);
}

const common = { platform: 'node', target: 'node20', outdir: LIB, logLevel: 'warning' };
const commonJs = { ...common, format: 'cjs', outExtension: { '.js': '.cjs' } };
const modules = {
  ...common,
  format: 'esm',
  bundle: true,
  splitting: true,
  packages: 'external',
};
await Promise.all([
  build({
    ...modules,
    entryPoints: [
      ...ENTRIES.map(({ name, module }) => ({ in: path(`src/${module}.ts`), out: name })),
      // A lane in a child process.
      { in: path('src/run/runtime/engines/lane-process.ts'), out: 'lane-process' },
    ],
    chunkNames: 'part-[hash]',
  }),
  // A thread starts from one file in CommonJS: the loader of modules takes a third of the start of a lane.
  build({
    ...commonJs,
    bundle: true,
    packages: 'external',
    entryPoints: [
      { in: path('src/run/runtime/engines/lane-thread.ts'), out: 'lane-thread' },
      { in: path('src/photos/images/lanes/decode-thread.ts'), out: 'decode-thread' },
      { in: path('src/cli/terminal/signal-thread.ts'), out: 'signal-thread' },
    ],
    supported: { 'dynamic-import': false },
    banner: { js: "const thisFile = require('node:url').pathToFileURL(__filename).href;" },
    define: { 'import.meta.url': 'thisFile' },
  }),
  // The command shares no parts with the entries: it would start from more and smaller files.
  build({
    ...modules,
    entryPoints: [{ in: path('src/cli/main.ts'), out: 'main' }],
    chunkNames: 'command-[hash]',
    metafile: true,
    absWorkingDir: path('.'),
  }).then(({ metafile }) => joinChunks(modules, metafile, 'main.js', STARTS)),
  build({ ...commonJs, entryPoints: [path('src/cli/bin.cts')] }),
  // A page is written into one file: its script and style stand beside the library until then.
  build({
    entryPoints: Object.entries(PAGES).flatMap(([page, files]) =>
      files.map((file) => ({ in: path(`src/${file}`), out: page })),
    ),
    outdir: path('dist/lib/page'),
    format: 'iife',
    bundle: true,
    minify: true,
    target: 'es2022',
    logLevel: 'warning',
  }),
]);
const copied = new Set();
for (const { module } of ENTRIES) copyTypes(`${module}.d.ts`, copied);
// As npm does when it installs the package.
chmodSync(path('dist/lib/bin.cjs'), 0o755);
