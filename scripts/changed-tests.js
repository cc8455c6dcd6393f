/**
 * Which test files a change needs: those that reach a changed file by their imports, by the names that they take from an entry of the
 * package, by the commands that they run and by the files that they name. Types alone reach nothing: the compiler checks them. Nor do
 * tests of a folder below that of the change, which use what stands above them as a tool only.
 *
 * `node scripts/changed-tests.js [REF]` prints them. Without REF, the change is what is not committed.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('..', import.meta.url));
const CODE = /\.(?:[cm]?ts|[cm]?js)$/;
const COMMANDS = 'src/cli/command-list.ts';

/** The folders of `src` from the ground up, by the table of CONTRIBUTING. */
const FLOORS = Array.from(
  readFileSync(join(PROJECT, 'CONTRIBUTING.md'), 'utf8').matchAll(/^\| `(\w+)\/` +\|/gm),
  ([, folder]) => folder,
);

/** Tests that would reach almost everything, and what they are about. */
const ABOUT = {
  'test/guides.test.ts': /^(?:README|docs\/|src\/cli\/|examples\/)/,
  'test/docs.test.ts': /^(?:README|CONTRIBUTING|docs\/|src\/.*\/index\.ts|src\/index\.ts)/,
  'test/wrong-arguments.test.ts': /^src\/(?:base\/(?:checks|options|errors)|.*options)/,
};

/** What decides how all tests run. */
const ALL =
  /^(?:package(?:-lock)?\.json|tsconfig.*|vitest\.config\.ts|scripts\/(?:bundle|clean|check-built)\.js|\.ci\/|wasm\/)/;

const git = (...words) =>
  execFileSync('git', words, { cwd: PROJECT, encoding: 'utf8' })
    .split('\n')
    .filter((line) => line !== '');

/** Files that differ from a commit, those that git does not know among them. */
export function changedFiles(ref = 'HEAD') {
  return [
    ...new Set([...git('diff', '--name-only', ref), ...git('ls-files', '--others', '--exclude-standard')]),
  ];
}

const entries = new Map(
  Object.entries(JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8')).exports)
    .filter(([, target]) => typeof target === 'object')
    .map(([key, { types }]) => [
      posix.join('onnx-tapir', key),
      types.replace('./dist/types/', 'src/').replace(/\.d\.ts$/, '.ts'),
    ]),
);

const texts = new Map();
function textOf(file) {
  if (!texts.has(file)) texts.set(file, readFileSync(join(PROJECT, file), 'utf8'));
  return texts.get(file);
}

/** The source file that an import means, or undefined for other packages. */
function fileOf(from, specifier) {
  if (entries.has(specifier)) return entries.get(specifier);
  if (!specifier.startsWith('.')) return undefined;
  return sourceOf(posix.join(dirname(from), specifier));
}

/** The source file of a path, which may be of the built package; a folder or another file as it is. */
function sourceOf(path) {
  if (path === 'dist/lib/bin.cjs') return 'src/cli/run.ts';
  const source = path.replace(/^build\/modules\//, 'src/').replace(/^dist\/lib\//, 'src/');
  const candidates = [source, source.replace(/js$/, 'ts')];
  return candidates.find((candidate) => existsSync(join(PROJECT, candidate)));
}

const IMPORTS = /\b(import|export)\s+(type\s+)?(?:(\{[^}]*\}|\*(?:\s+as\s+\w+)?|\w+)\s+from\s+)?'([^'\n]+)'/g;

const imported = new Map();

/** What a file imports when it runs: the file and the names, undefined for all. */
function importsOf(file) {
  if (!imported.has(file)) imported.set(file, readImports(file));
  return imported.get(file);
}

function readImports(file) {
  const text = textOf(file);
  const found = [];
  for (const [, , type, what, specifier] of text.matchAll(IMPORTS)) {
    const target = fileOf(file, specifier);
    if (type !== undefined || target === undefined) continue;
    if (!what?.startsWith('{')) found.push({ target, names: undefined, exported: [] });
    else {
      const named = what
        .slice(1, -1)
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '' && !name.startsWith('type '));
      const pairs = named.map((name) => name.split(/\s+as\s+/));
      if (pairs.length > 0)
        found.push({
          target,
          names: pairs.map(([name]) => name),
          exported: pairs.map((pair) => pair.at(-1)),
        });
    }
  }
  return found;
}

const named = new Map();

/** Files named in other ways: modules that load later, and paths of the project. */
function othersOf(file) {
  if (!named.has(file)) named.set(file, readOthers(file));
  return named.get(file);
}

function readOthers(file) {
  const text = textOf(file);
  const later = Array.from(text.matchAll(/\bimport\(\s*'([^']+)'/g), ([, specifier]) =>
    fileOf(file, specifier),
  );
  const paths = Array.from(text.matchAll(/projectPath\(\s*'([^']+)'/g), ([, path]) => sourceOf(path) ?? path);
  return [...later, ...paths].filter((path) => path !== undefined && path !== '.');
}

/** Whether a module hands on what others define, and nothing else. */
const isFace = (file) =>
  file === 'src/index.ts' || /^src\/.*\/index\.ts$/.test(file) || file === 'test/support/tapir.ts';

/** The modules behind names that a face hands on. */
function behind(file, names) {
  const all = importsOf(file);
  if (names === undefined) return all.map(({ target, names: inner }) => ({ target, names: inner }));
  return all.flatMap(({ target, names: inner, exported }) => {
    if (inner === undefined) return isFace(target) ? [{ target, names }] : [{ target, names: undefined }];
    const wanted = inner.filter((_, i) => names.includes(exported[i]));
    return wanted.length > 0 ? [{ target, names: wanted }] : [];
  });
}

let commands;

/** The files that a test reaches. */
function reachedBy(test) {
  commands ??= Array.from(
    textOf(COMMANDS).matchAll(/(['\w-]+): \[[^\]]*?import\('([^']+)'\)/g),
    ([, name, specifier]) => ({
      name: name.replaceAll("'", ''),
      target: fileOf(COMMANDS, specifier),
    }),
  );
  const said = commands.filter(({ name }) => new RegExp(`['"\`\\s]${name}['"\`\\s]`).test(textOf(test)));
  const reached = new Set();
  const faces = new Set();
  const left = [{ target: test, names: undefined }];
  while (left.length > 0) {
    const { target, names } = left.pop();
    if (isFace(target) && CODE.test(target)) {
      const key = `${target} ${names?.join()}`;
      if (faces.has(key)) continue;
      faces.add(key);
      left.push(...behind(target, names));
      continue;
    }
    if (reached.has(target)) continue;
    reached.add(target);
    if (!CODE.test(target) || !existsSync(join(PROJECT, target))) continue;
    left.push(...importsOf(target).map(({ target: to, names: wanted }) => ({ target: to, names: wanted })));
    const others =
      target === COMMANDS
        ? (said.length > 0 ? said : commands).map(({ target: to }) => to)
        : othersOf(target);
    left.push(...others.map((to) => ({ target: to, names: undefined })));
  }
  return reached;
}

/** The floor of a file of `src` or of its test; undefined for others. */
function floorOf(path) {
  const floor = FLOORS.indexOf(/^(?:src|test)\/(\w+)\//.exec(path)?.[1]);
  return floor < 0 ? undefined : floor;
}

/** The tests that a change of these files needs, in the order of their paths. */
export function testsOf(changed) {
  const tests = git('ls-files', '--cached', '--others', '--exclude-standard', 'test').filter(
    (path) => path.endsWith('.test.ts') && existsSync(join(PROJECT, path)),
  );
  if (changed.some((path) => ALL.test(path))) return tests;
  return tests.filter((test) => {
    if (changed.includes(test)) return true;
    const floor = floorOf(test) ?? FLOORS.length;
    if (ABOUT[test]) return changed.some((path) => ABOUT[test].test(path));
    const reached = reachedBy(test);
    return changed.some((path) => {
      if (floor < (floorOf(path) ?? 0)) return false;
      for (let at = path; at !== '.'; at = dirname(at)) if (reached.has(at)) return true;
      return false;
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const test of testsOf(changedFiles(process.argv[2]))) console.log(test);
