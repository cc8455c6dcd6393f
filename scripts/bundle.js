/**
 * Builds the package from the sources that tsc has checked: the library and the command as a few files, which load in a third of
 * the time of their 250 modules, the scripts and styles of pages, and the types. Dependencies stay outside of the bundle.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const path = (relative) => fileURLToPath(new URL(`../${relative}`, import.meta.url));
const LIB = path('dist/lib');
/** The entries of the package: the main one, and a room each. */
const ROOMS = Object.keys(JSON.parse(readFileSync(path('package.json'), 'utf8')).exports)
  .filter((entry) => entry !== '.' && entry !== './package.json')
  .map((entry) => entry.slice(2));
/** Name of a page, and its script and style under src. */
const PAGES = {
  report: ['pages/report/page/main.ts', 'pages/report/page/page.css'],
  explore: ['pages/explore/page/main.ts', 'pages/explore/page/page.css'],
  compare: ['html/browser/plain-page.ts', 'precision/compare/page.css'],
  check: ['html/browser/plain-page.ts', 'precision/compare/page.css'],
  train: ['html/browser/plain-page.ts', 'train/folder/page.css'],
};

/** Copies a declaration file and those that it imports: what no entry reaches is not shipped. */
function copyTypes(file, copied) {
  if (copied.has(file)) return;
  copied.add(file);
  mkdirSync(dirname(path(`dist/types/${file}`)), { recursive: true });
  const text = pastDoors(file, readFileSync(path(`build/modules/${file}`), 'utf8'), true);
  writeFileSync(path(`dist/types/${file}`), text);
  for (const [, from] of text.matchAll(/(?:from|import\()\s*'(\.[^']+)\.js'/g))
    copyTypes(posix.join(posix.dirname(file), `${from}.d.ts`), copied);
}

/** An import from a door: of the package, of a room, the toolkit, or that of scripts in pages. */
const DOOR_IMPORT =
  /^import (type )?\{([^}]*)\} from '((?:\.\.\/)+(?:(?:\w+\/)?(?:index|toolkit)|html\/shared)\.js)';$/gm;
const doors = new Map();

/**
 * Imports each name of a door from the file that it comes from. esbuild counts each file of a door as reached by whoever imports one name,
 * and entries of products would load parts that they do not use. The types would be shipped for all names of the toolkit.
 *
 * @param file - Relative to src.
 * @param keepsTypes - Whether types are imported, too.
 */
function pastDoors(file, text, keepsTypes) {
  const folder = posix.dirname(file);
  return text.replace(DOOR_IMPORT, (_, types = '', names, door) => {
    const origins = originsOf(posix.join(folder, door));
    const kept = listNames(names).filter((name) => keepsTypes || (types === '' && !name.startsWith('type ')));
    return kept
      .map((name) => `import ${types}{ ${name} } from '${posix.relative(folder, origins.get(bare(name)))}';`)
      .join(' ');
  });
}

/** The file of each name that a door hands on. */
function originsOf(door) {
  const known = doors.get(door);
  if (known) return known;
  const text = readFileSync(path(`src/${door.replace(/\.js$/, '.ts')}`), 'utf8');
  const origins = new Map();
  for (const [, names, from] of text.matchAll(/^export (?:type )?\{([^}]*)\} from '([^']+)';$/gm))
    for (const name of listNames(names)) origins.set(bare(name), posix.join(posix.dirname(door), from));
  doors.set(door, origins);
  return origins;
}

function listNames(names) {
  return names
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function bare(name) {
  return name.replace(/^type /, '');
}

const pastDoorsPlugin = {
  name: 'past-doors',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]src[\\/]\w+[\\/].*\.ts$/ }, ({ path: file }) => ({
      loader: 'ts',
      contents: pastDoors(
        relative(path('src'), file).replaceAll('\\', '/'),
        readFileSync(file, 'utf8'),
        false,
      ),
    }));
  },
};

const common = { platform: 'node', target: 'node20', outdir: LIB, logLevel: 'warning' };
const commonJs = { ...common, format: 'cjs', outExtension: { '.js': '.cjs' } };
const modules = {
  ...common,
  format: 'esm',
  bundle: true,
  splitting: true,
  packages: 'external',
  plugins: [pastDoorsPlugin],
};
await Promise.all([
  build({
    ...modules,
    entryPoints: [
      { in: path('src/index.ts'), out: 'index' },
      ...ROOMS.map((room) => ({ in: path(`src/${room}/index.ts`), out: room })),
      // A lane in a child process.
      { in: path('src/runtime/engines/lane-process.ts'), out: 'lane-process' },
    ],
    chunkNames: 'part-[hash]',
  }),
  // A thread starts from one file in CommonJS: the loader of modules takes a third of the start of a lane.
  build({
    ...commonJs,
    bundle: true,
    packages: 'external',
    entryPoints: [
      { in: path('src/runtime/engines/lane-thread.ts'), out: 'lane-thread' },
      { in: path('src/images/lanes/decode-thread.ts'), out: 'decode-thread' },
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
  }),
  build({ ...commonJs, entryPoints: [path('src/cli/bin.cts')] }),
  // A page is written into one file: its script and style stand beside the library until then.
  build({
    entryPoints: Object.entries(PAGES).flatMap(([page, files]) =>
      files.map((file) => ({ in: path(`src/${file}`), out: page })),
    ),
    outdir: path('dist/lib/page'),
    format: 'iife',
    bundle: true,
    plugins: [pastDoorsPlugin],
    minify: true,
    target: 'es2022',
    logLevel: 'warning',
  }),
]);
const copied = new Set();
for (const entry of ['index.d.ts', ...ROOMS.map((room) => `${room}/index.d.ts`)]) copyTypes(entry, copied);
// As npm does when it installs the package.
chmodSync(path('dist/lib/bin.cjs'), 0o755);
