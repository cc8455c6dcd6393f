/** The real command, killed again and again: what it leaves is what an uninterrupted run leaves. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
  copyFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { readMetadata } from '../../../src/datasets/formats/metadata.js';
import { createRandom } from '../../../src/base/random.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { rounds } from '../../support/rounds.js';

const KILLS = rounds(3, 20);
const scratch = mkdtempSync(join(scratchFolder(), 'crash-'));
const model = join(scratch, 'model.onnx');
const photos = join(scratch, 'photos');

/** Photos repeated to 2,000 inputs, with broken ones among them. */
function makePhotos(): number {
  const all = readdirSync(projectPath('examples/photos'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.jpg'))
    .map((file) => projectPath(`examples/photos/${file}`));
  mkdirSync(photos);
  const first = join(photos, 'first');
  mkdirSync(first);
  for (const file of all) copyFileSync(file, join(first, basename(file)));
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(first, 'cut.jpg'));
  writeFileSync(join(first, 'zero.jpg'), '');
  const names = readdirSync(first);
  let count = names.length;
  for (let copy = 1; count < 2000; copy++) {
    const folder = join(photos, `copy-${String(copy).padStart(3, '0')}`);
    mkdirSync(folder);
    for (const name of names) linkSync(join(first, name), join(folder, name));
    count += names.length;
  }
  return count;
}

function start(out: string): ReturnType<typeof spawn> {
  const options = ['--model', model, '--return', 'avgpool=f', '--return', 'layer4=map', '--out', out];
  const settings = ['--batch', '8', '--set', 'shardSize=32', '--set', 'sessions=1', '--set', 'threads=1'];
  const args = [projectPath('dist/lib/bin.cjs'), 'embed', photos, ...options, ...settings];
  return spawn(process.execPath, args, { stdio: 'ignore' });
}

/** Features and metadata by name. */
function contentOf(out: string): Map<string, Buffer> {
  const files = readdirSync(out, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    files
      .map((file) => [file.slice(out.length + 1), readFileSync(file)] as const)
      .filter(([name]) => /^(features|metadata)/.test(name)),
  );
}

const linesOf = (out: string): number => {
  const path = join(out, 'journal.jsonl');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
};

it(
  `loses nothing and does nothing twice when it is killed ${KILLS} times`,
  { timeout: 300_000 },
  async () => {
    writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
    const inputs = makePhotos();
    const whole = join(scratch, 'whole');
    expect(await once(start(whole), 'exit')).toEqual([1, null]);

    const out = join(scratch, 'out');
    const random = createRandom(6);
    let killed = 0;
    for (; killed < KILLS; killed++) {
      const child = start(out);
      const ended = once(child, 'exit');
      const from = linesOf(out);
      // Anywhere: while it starts, between two shards, while the files of one are written.
      const lines = Math.floor(4 * random());
      const delayMs = 120 * random();
      while (child.exitCode === null && linesOf(out) < from + lines) await sleep(1);
      await sleep(delayMs);
      child.kill('SIGKILL');
      expect(await ended, 'it was still at work').toEqual([null, 'SIGKILL']);
      expect(existsSync(join(out, 'manifest.json'))).toBe(false);
    }
    const left = linesOf(out);
    expect(await once(start(out), 'exit')).toEqual([1, null]);
    // Some of it was there already, and some was not.
    expect(left).toBeGreaterThan(KILLS / 2);
    expect(linesOf(out)).toBeGreaterThan(left);

    const [expected, actual] = [contentOf(whole), contentOf(out)];
    expect([...actual.keys()]).toEqual([...expected.keys()]);
    for (const [name, bytes] of expected) expect(actual.get(name)!.equals(bytes), name).toBe(true);
    const paths = new Set<string | null>();
    let rows = 0;
    for (const name of readdirSync(join(out, 'metadata'))) {
      for await (const { path } of readMetadata(join(out, 'metadata', name))) {
        paths.add(path);
        rows++;
      }
    }
    expect([rows, paths.size]).toEqual([inputs, inputs]);
  },
);
