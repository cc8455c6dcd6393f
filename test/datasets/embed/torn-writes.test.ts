/**
 * Kills in the middle of writes, with everything lost that was not synced (see support/torn-writes.mjs): what the command leaves can
 * always be resumed, and ends as an uninterrupted run does, byte for byte. TAPIR_SEED sets the random
 * numbers.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { openDataset } from 'onnx-tapir';
import { expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { rounds, someOf } from '../../support/rounds.js';

const KILLS = rounds(1, 15);
const SEED = Number(process.env['TAPIR_SEED'] ?? 1);
/** Longest time for one start of the command, on a machine that is busy with other work. */
const MOST_MS_PER_START = 30_000;

const scratch = mkdtempSync(join(scratchFolder(), 'torn-'));
const model = join(scratch, 'model.onnx');
writeFileSync(
  model,
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
    outputs: [{ name: 'y', dims: ['n', 3] }],
    initializers: { scale: [1, 2, 3] },
    nodes: [
      { op: 'GlobalAveragePool', inputs: ['x'], outputs: ['pooled'] },
      { op: 'Flatten', inputs: ['pooled'], outputs: ['flat'] },
      { op: 'Mul', inputs: ['flat', 'scale'], outputs: ['y'] },
    ],
  }),
);
const photo = projectPath('examples/photos/sea/sea-0.jpg');
const other = projectPath('examples/photos/city/city-0.jpg');

/** Twelve inputs, two of which cannot be read. */
function firstPhotos(): string {
  const photos = mkdtempSync(join(scratch, 'photos-'));
  for (let i = 0; i < 10; i++) copyFileSync(photo, join(photos, `${i}.jpg`));
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'cut.jpg'));
  writeFileSync(join(photos, 'zero.jpg'), '');
  return photos;
}

/** One that could not be read can, one has changed, two are gone, and there are new ones. */
function changePhotos(photos: string): void {
  copyFileSync(photo, join(photos, 'zero.jpg'));
  copyFileSync(other, join(photos, '3.jpg'));
  for (const name of ['cut.jpg', '5.jpg']) rmSync(join(photos, name));
  for (let i = 0; i < 5; i++) copyFileSync(other, join(photos, `new-${i}.jpg`));
}

const COMMAND = projectPath('dist/lib/bin.cjs');
const IN_PIECES = projectPath('test/support/embed-in-pieces.mjs');

function embedArguments(photos: string, out: string, format: string, shard?: string): string[] {
  const request = [
    '--model',
    model,
    '--return',
    'y=f',
    '--return',
    'pooled=p',
    '--out',
    out,
    '--format',
    format,
  ];
  const settings = [
    '--batch',
    '2',
    '--set',
    'shardSize=4',
    '--set',
    'sessions=1',
    '--set',
    'threads=1',
    '--remove-missing',
  ];
  return [
    COMMAND,
    'embed',
    photos,
    ...request,
    ...settings,
    ...(shard === undefined ? [] : ['--shard', shard]),
  ];
}

/** Runs the command; returns whether it was killed. Any other end but success, or failed inputs, is an error. */
async function start(args: readonly string[], torn: Readonly<Record<string, string>> = {}): Promise<boolean> {
  const layer = ['--import', projectPath('test/support/torn-writes.mjs')];
  const command = [...(torn['TORN_DIR'] ? layer : []), ...args];
  const child = spawn(process.execPath, command, {
    env: { ...process.env, ...torn },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  if (signal === 'SIGKILL') return true;
  expect([0, 1], text).toContain(code);
  return false;
}

/** Features, metadata and, after a merge, the manifest, by name. */
function contentOf(out: string): Map<string, string> {
  const entries = readdirSync(out, { recursive: true, withFileTypes: true });
  const isMerged = existsSync(join(out, 'parts'));
  return new Map(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(out.length + 1))
      .filter((name) => /^(features|metadata)/.test(name) || (isMerged && name === 'manifest.json'))
      .toSorted()
      .map((name) => [name, readFileSync(join(out, name)).toString('base64')]),
  );
}

/** A manifest promises that everything it names is there. */
async function checkReadable(out: string): Promise<void> {
  if (!existsSync(join(out, 'manifest.json'))) return;
  const dataset = await openDataset(out);
  let inputs = 0;
  for await (const row of dataset.rows()) inputs += row.status === 'ok' || row.row === null ? 1 : 0;
  expect(inputs).toBe(dataset.manifest.counts.inputs);
  for (const key of Object.keys(dataset.manifest.features))
    for await (const { rows } of dataset.blocks(key)) expect(rows).toBeGreaterThan(0);
}

/** The vectors of each photo, whatever shards they lie in. */
async function vectorsIn(out: string): Promise<string[]> {
  const dataset = await openDataset(out);
  const found: string[] = [];
  for (const key of ['f', 'p'])
    for await (const { path, vector } of dataset.vectors(key))
      found.push(JSON.stringify([key, path, [...vector]]));
  return found.toSorted();
}

const random = createRandom(SEED);
/** Changes that an uninterrupted run makes. */
async function countChanges(args: readonly string[], out: string): Promise<number> {
  const file = join(scratch, 'count');
  await start(args, { TORN_DIR: out, TORN_COUNT: file });
  return Number(readFileSync(file, 'utf8'));
}

/** Kills the command until it ends by itself, or has been killed often enough; then lets it end. Returns the number of kills. */
async function endure(args: readonly string[], out: string, changes: number, most: number): Promise<number> {
  for (let kills = 0; kills < most; kills++) {
    const at = 1 + Math.floor(changes * random());
    const torn = { TORN_DIR: out, TORN_AT: String(at), TORN_SEED: String(Math.floor(2 ** 31 * random())) };
    if (!(await start(args, torn))) return kills;
    await checkReadable(out);
  }
  await start(args);
  return most;
}

const timeout = MOST_MS_PER_START * (6 * KILLS + 12);

const WAYS = [
  ['npy', 'in pieces'],
  ['npy', 'at once'],
  ['arrow', 'at once'],
  ['arrow', 'in pieces'],
  ['parquet', 'in pieces'],
  ['parquet', 'at once'],
] as const;

it.each(someOf(WAYS, 2))(`embed survives ${KILLS} kills, as %s %s`, { timeout }, async (format, way) => {
  const argumentsFor = (photos: string, out: string): string[] =>
    way === 'at once' ? embedArguments(photos, out, format) : [IN_PIECES, model, photos, out, format];
  let killed = 0;
  while (killed < KILLS) {
    const photos = firstPhotos();
    const [whole, out] = [mkdtempSync(join(scratch, 'whole-')), mkdtempSync(join(scratch, 'out-'))];
    for (const prepare of [() => undefined, () => changePhotos(photos)]) {
      prepare();
      const changes = await countChanges(argumentsFor(photos, whole), whole);
      expect(changes).toBeGreaterThan(20);
      killed += await endure(argumentsFor(photos, out), out, changes, KILLS - killed);
      // Retries and removals that were saved in a piece, and then interrupted, are a shard of their own at the next start.
      const mayDiffer = way === 'in pieces' && existsSync(join(photos, 'new-0.jpg'));
      if (mayDiffer) expect(await vectorsIn(out)).toEqual(await vectorsIn(whole));
      else expect(contentOf(out)).toEqual(contentOf(whole));
      await checkReadable(out);
    }
    const { manifest } = await openDataset(out);
    expect(manifest.counts).toEqual({ inputs: 15, ok: 15, errors: 0, removed: 2 });
    rmSync(out, { recursive: true });
    rmSync(whole, { recursive: true });
  }
});

it(`merge survives ${KILLS} kills`, { timeout }, async () => {
  const photos = firstPhotos();
  const [first, second] = [join(scratch, 'first'), join(scratch, 'second')];
  for (const shard of ['0/2', '1/2']) await start(embedArguments(photos, first, 'npy', shard));
  mkdirSync(second);
  cpSync(join(first, 'parts'), join(second, 'parts'), { recursive: true });
  changePhotos(photos);
  for (const shard of ['0/2', '1/2']) await start(embedArguments(photos, second, 'npy', shard));
  const whole = join(scratch, 'merged');
  cpSync(second, whole, { recursive: true });
  const changes = await countChanges([COMMAND, 'merge', whole], whole);
  const expected = contentOf(whole);
  let killed = 0;
  while (killed < KILLS) {
    const out = mkdtempSync(join(scratch, 'merge-'));
    cpSync(first, out, { recursive: true });
    killed += await endure([COMMAND, 'merge', out], out, changes, KILLS - killed);
    // The parts are added to, and merged again.
    rmSync(join(out, 'parts'), { recursive: true });
    cpSync(join(second, 'parts'), join(out, 'parts'), { recursive: true });
    killed += await endure([COMMAND, 'merge', out], out, changes, KILLS - killed);
    expect(contentOf(out)).toEqual(expected);
    await checkReadable(out);
    rmSync(out, { recursive: true });
  }
});
