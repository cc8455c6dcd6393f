/**
 * `npm run conformance [-- counts | names | pixels | photo-files | processors | FOLDER…]`: counts what is right, wrong and refused, and writes the tables into
 * README.md. With `counts`, `names`, `pixels` or `photo-files`, only that part, and with `processors` what processors.ts finds; without, `tapir check` runs on every model at hand as well.
 *
 * Models: torchvision's networks by `tapir models create`; with Python (environment variable PYTHON, with torch, torchvision and timm) also
 * timm's families; the ONNX files of the tests; and those of the given folders. A `reference.npz` beside a file is what it must give.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, cpus, homedir, tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { openModel, pruneModel } from 'onnx-tapir';
import { listModels } from 'onnx-tapir/zoo';
import type { ModelCheck } from '../src/cli/measure/check-model.js';
import { countFixtures, describeCounts } from './count.js';
import { describeNames, judgeNames } from './names.js';
import { comparePixels, describePixels } from './pixels.js';
import { countPhotoFiles, describePhotoFiles } from './photo-files.js';
import { findLikeClasses } from './processors.js';
import { describeRow, writePart, writeTable, type Row } from './table.js';

const project = fileURLToPath(new URL('..', import.meta.url));
const tapir = join(project, 'dist/lib/bin.cjs');
const scratch = mkdtempSync(join(tmpdir(), 'tapir-conformance-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
// The engines that are installed, and no prepared models left behind.
const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
const env = { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') };
mkdirSync(join(scratch, 'cache/onnx-tapir'), { recursive: true });
if (existsSync(join(cache, 'onnx-tapir/engines')))
  symlinkSync(join(cache, 'onnx-tapir/engines'), join(scratch, 'cache/onnx-tapir/engines'));

/** Larger networks take minutes. */
const MOST_BYTES = 500e6;
const MOST_MS = 300_000;
type Found = Omit<Row, 'group' | 'name' | 'seconds'>;

/** Four photos: a batch that is split, and as much as 120 models leave time for. */
const PHOTOS = ['city/city-0.jpg', 'dunes/dunes-3.jpg', 'flower/flower-2.jpg', 'sea/sea-1.jpg'];
const photos = join(scratch, 'photos');
mkdirSync(photos);
for (const path of PHOTOS) copyFileSync(join(project, 'examples/photos', path), join(photos, basename(path)));

/** What was found so far: a run that was stopped goes on. */
const journal = join(project, 'build/conformance.jsonl');
const rows: Row[] = existsSync(journal)
  ? readFileSync(journal, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Row)
  : [];
const readme = join(project, 'conformance/README.md');
const fixtures = join(project, 'test/fixtures');
const part = process.argv[2];
const made = join(scratch, 'python');
const python = process.env['PYTHON'];
/** Parts that run alone where one is named. */
const PARTS = new Set(['counts', 'names', 'pixels', 'processors', 'photo-files']);
const asked = (one: string): boolean => part === one || !PARTS.has(part ?? '');
if (asked('counts')) writePart(readme, 'counts', describeCounts(await countFixtures(fixtures)));
if (asked('names') && python !== undefined)
  writePart(readme, 'names', describeNames(await judgeNames(python, join(scratch, 'names'))));
if (asked('pixels') && python !== undefined)
  writePart(readme, 'pixels', describePixels(await comparePixels(python, join(scratch, 'pixels'))));
if (asked('photo-files')) {
  const sizes = Number(process.env['PHOTO_FILE_SIZES'] ?? 50);
  const counts = await countPhotoFiles(sizes, python, join(scratch, 'configurations'));
  writePart(readme, 'photo-files', describePhotoFiles(counts, sizes));
}
if (part === 'processors' && python !== undefined) await findLikeClasses(python, join(scratch, 'processors'));
if (PARTS.has(part ?? '')) process.exit();
if (python !== undefined)
  execFileSync(python, [join(project, 'conformance/reference.py'), photos, made], { stdio: 'inherit' });

for (const name of listModels())
  await add('torchvision', name, async () => {
    const file = join(scratch, 'created.onnx');
    const args = [tapir, 'create', name, '--overwrite', '--out', file];
    const { status, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
    if (status !== 0) return { error: lastLineOf(stderr) };
    const { size } = statSync(file);
    if (size > MOST_BYTES) return { error: `not run here: larger than ${MOST_BYTES / 1e6} MB` };
    const about = readAbout(join(made, 'torchvision', name));
    return { ...(await check(file, about)), torch: await resolveAll(file, about.names) };
  });
for (const file of filesBelow(join(made, 'timm')))
  await add('timm', basename(dirname(file)), () => check(file));
for (const file of filesBelow(fixtures, /(?:stages|parameters|text)\/.*(?<!external)\.onnx(?:\.gz)?$/))
  await add('test/fixtures', nameIn(fixtures, file), () => check(unpack(file)));
const corpus = join(fixtures, 'graphs');
for (const file of filesBelow(corpus)) await add('corpus', nameIn(corpus, file), () => check(file));
for (const folder of process.argv.slice(2))
  for (const file of filesBelow(folder)) await add('packages', nameIn(folder, file), () => check(file));

writeTable(readme, rows, {
  version: execFileSync(process.execPath, [tapir, '--version'], { encoding: 'utf8' }).trim(),
  machine: `${cpus()[0]!.model.trim()}, ${availableParallelism()} cores, Node ${process.version}`,
  hasPython: python !== undefined,
});
rmSync(journal);

async function add(group: string, name: string, find: () => Promise<Found>): Promise<void> {
  if (rows.some((row) => row.group === group && row.name === name)) return;
  const started = performance.now();
  const found = await find();
  const row: Row = { group, name, ...found, seconds: (performance.now() - started) / 1000 };
  rows.push(row);
  appendFileSync(journal, `${JSON.stringify(row)}\n`);
  process.stderr.write(`${describeRow(row)}\n`);
}

/** What Python says about a network of torchvision. */
interface About {
  readonly transform?: string;
  readonly against?: string;
  readonly names?: readonly string[];
}

function readAbout(folder: string): About {
  if (!existsSync(folder)) return {};
  const about = JSON.parse(readFileSync(join(folder, 'about.json'), 'utf8')) as About;
  return { ...about, against: join(folder, 'reference.npz') };
}

/** The whole photo in the size of an input that no configuration describes; undefined for what takes no photos, or takes 224 × 224. */
async function sizeOf(file: string): Promise<string | undefined> {
  const model = await openModel(file).catch(() => undefined);
  const [, channels, height, width] = model?.inputs[0]?.dims ?? [];
  if (channels !== 3 || typeof height !== 'number' || typeof width !== 'number' || height + width === 448)
    return undefined;
  return JSON.stringify({ resize: { height, width }, crop: { height, width } });
}

/** Runs the command. Its exit code says no more than its JSON. */
async function check(file: string, about: About = {}): Promise<Found> {
  const beside = join(dirname(file), 'reference.npz');
  const against = about.against ?? (existsSync(beside) ? beside : undefined);
  const transform = about.transform ?? (against === undefined ? await sizeOf(file) : undefined);
  const flags = [
    ...(transform === undefined ? [] : ['--transform', transform]),
    ...(against === undefined ? [] : ['--against', against]),
  ];
  const { stdout, stderr, signal } = spawnSync(
    process.execPath,
    [tapir, 'check', file, photos, '--json', ...flags],
    { env, encoding: 'utf8', timeout: MOST_MS, maxBuffer: 2 ** 28 },
  );
  if (signal !== null) return { error: `stopped after ${MOST_MS / 1000} s` };
  if (stdout !== '') return { check: JSON.parse(stdout) as ModelCheck };
  return { error: lastLineOf(stderr) };
}

/** Without the place of this checkout. */
function lastLineOf(text: string): string {
  return text.trim().split('\n').at(-1)!.replaceAll(project, '');
}

/** How many of torchvision's names denote a value. */
async function resolveAll(file: string, names: readonly string[] | undefined): Promise<Row['torch']> {
  if (!names) return undefined;
  const model = await openModel(file);
  const wrong: string[] = [];
  for (const name of names) await pruneModel(model, [name]).catch(() => wrong.push(name));
  return { names: names.length, wrong };
}

function filesBelow(folder: string, pattern = /\.onnx$/): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => pattern.test(path))
    .toSorted()
    .map((path) => join(folder, path));
}

function nameIn(folder: string, file: string): string {
  return relative(folder, file)
    .replaceAll('\\', '/')
    .replace(/\.onnx(?:\.gz)?$/, '');
}

function unpack(file: string): string {
  if (!file.endsWith('.gz')) return file;
  const unpacked = join(scratch, 'unpacked.onnx');
  writeFileSync(unpacked, gunzipSync(readFileSync(file)));
  return unpacked;
}
