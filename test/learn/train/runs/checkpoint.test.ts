/** Checkpoints: what is read is what was written, whole, whenever the writer dies. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { isTemporary } from '../../../../src/base/atomic-file.js';
import { createRandom } from '../../../../src/base/random.js';
import {
  readCheckpoint,
  writeCheckpoint,
  type Checkpoint,
} from '../../../../src/learn/train/runs/checkpoint.js';
import { checkpointOf } from '../../../support/checkpoints.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { rounds, someOf } from '../../../support/rounds.js';

const scratch = scratchFolder();
const place = (): string => mkdtempSync(join(scratch, 'checkpoint-'));

/** Expects a whole checkpoint of one step, and returns the step. */
async function readStep(folder: string): Promise<number> {
  const { tensors, facts } = await readCheckpoint(folder);
  const step = facts['step'] as number;
  const wanted = checkpointOf(step);
  expect([...tensors.keys()]).toEqual([...wanted.tensors.keys()]);
  for (const [name, { dims, data }] of tensors) {
    expect(dims).toEqual(wanted.tensors.get(name)!.dims);
    expect(
      (data as Float32Array).every((value) => value === step),
      `${name} of step ${step}`,
    ).toBe(true);
  }
  return step;
}

/** A process that writes checkpoints. */
interface Writer {
  /** The latest step that it has reported; 0 before the first. */
  readonly done: () => number;
  readonly kill: () => void;
  /** Resolves when it has ended, to the signal that ended it. */
  readonly ended: Promise<string | null>;
}

function startWriter(
  folder: string,
  [first, last]: readonly [number, number],
  torn: Readonly<Record<string, string>> = {},
): Writer {
  const layer =
    torn['TORN_DIR'] === undefined ? [] : ['--import', projectPath('test/support/torn-writes.mjs')];
  const script = [projectPath('test/support/write-checkpoints.ts'), folder, String(first), String(last)];
  const child = spawn(process.execPath, ['--import', 'tsx', ...layer, ...script], {
    env: { ...process.env, ...torn },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const ended = once(child, 'close').then(([, signal]) => signal as string | null);
  return { done: () => Number(text.trim().split('\n').at(-1)), kill: () => child.kill('SIGKILL'), ended };
}

describe('writeCheckpoint and readCheckpoint', () => {
  it('give back tensors and facts, in their order', async () => {
    const folder = join(place(), 'deeper', 'folder');
    const tensors: Checkpoint['tensors'] = new Map([
      ['z', { dtype: 'float32', dims: [2, 1], data: Float32Array.of(1.5, -0) }],
      ['a', { dtype: 'int64', dims: [], data: BigInt64Array.of(7n) }],
      ['none', { dtype: 'float32', dims: [0], data: new Float32Array(0) }],
    ]);
    const facts = { step: 3, lr: 0.1, names: ['ä', null], nested: { isDone: false } };
    await writeCheckpoint(folder, { tensors, facts });
    const read = await readCheckpoint(folder);
    expect([...read.tensors]).toEqual([...tensors]);
    expect(read.facts).toEqual(facts);
  });

  it('keep the latest only', async () => {
    const folder = place();
    for (const step of [1, 2, 3]) await writeCheckpoint(folder, checkpointOf(step));
    expect(await readStep(folder)).toBe(3);
    expect(readdirSync(folder).toSorted()).toEqual(['checkpoint.json', 'tensors-3.safetensors']);
  });

  it('leave other files alone, and remove the tensors of interrupted writes', async () => {
    const folder = place();
    await writeCheckpoint(folder, checkpointOf(1));
    const others = [
      'best.safetensors',
      'tensors-x.safetensors',
      'notes.partial',
      `.tapir-${process.pid}-0123abcd.partial`,
    ];
    const left = ['tensors-7.safetensors', `.tapir-${process.pid + 1}-0123abcd.partial`];
    for (const name of [...others, ...left]) writeFileSync(join(folder, name), 'x');
    await writeCheckpoint(folder, checkpointOf(2));
    expect(await readStep(folder)).toBe(2);
    expect(new Set(readdirSync(folder))).toEqual(
      new Set([...others, 'checkpoint.json', 'tensors-8.safetensors']),
    );
  });

  it.each([
    [{ loss: NaN }],
    [{ losses: [1, Infinity] }],
    [{ at: new Date(0) }],
    [{ a: { b: undefined } }],
    [{ n: 1n }],
  ])('refuse facts that JSON changes: %o', async (facts) => {
    const writing = writeCheckpoint(place(), { ...checkpointOf(1), facts });
    await expect(writing).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(/option "facts\.\S+" must be what JSON can express/),
    });
  });

  it('say that the folder cannot be written', async () => {
    const file = join(place(), 'file');
    writeFileSync(file, '');
    await expect(writeCheckpoint(file, checkpointOf(1))).rejects.toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
  });
});

describe('readCheckpoint', () => {
  const rewrite = (folder: string, change: object): void => {
    const path = join(folder, 'checkpoint.json');
    const record = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...record, ...change }));
  };

  it.each<[string, (folder: string) => void, RegExp]>([
    ['no record', (at) => rmSync(join(at, 'checkpoint.json')), /there is no whole checkpoint/],
    ['no tensors', (at) => rmSync(join(at, 'tensors-1.safetensors')), /there is no whole checkpoint/],
    ['a cut record', (at) => truncateSync(join(at, 'checkpoint.json'), 40), /checkpoint\.json is not JSON/],
    ['a list', (at) => writeFileSync(join(at, 'checkpoint.json'), '[]'), /is not a JSON object/],
    [
      'cut tensors',
      (at) => truncateSync(join(at, 'tensors-1.safetensors'), 999),
      /SHA-256 of tensors-1.* damaged/,
    ],
    ['another format', (at) => rewrite(at, { format: 'onnx-tapir checkpoint 2' }), /this version reads/],
    [
      'a flipped bit',
      (at) => {
        const path = join(at, 'checkpoint.json');
        writeFileSync(path, readFileSync(path, 'utf8').replace('"step"', '"stdp"'));
      },
      /the facts in checkpoint\.json are not those that were written: it is damaged/,
    ],
    ['no facts', (at) => rewrite(at, { facts: 3 }), /lacks tensors or facts/],
    [
      'a path out of the folder',
      (at) => rewrite(at, { tensors: { file: '../tensors-1.safetensors', sha256: '' } }),
      /the file of tensors in checkpoint\.json is "\.\.\/tensors-1\.safetensors"/,
    ],
  ])('refuses %s', async (_what, damage, message) => {
    const folder = place();
    await writeCheckpoint(folder, checkpointOf(1));
    damage(folder);
    await expect(readCheckpoint(folder)).rejects.toMatchObject({
      code: 'CHECKPOINT_INVALID',
      details: { path: folder },
      message: expect.stringMatching(message),
    });
  });
});

describe('a writer that dies', () => {
  it('leaves a whole checkpoint whenever it is killed', { timeout: 120_000 }, async () => {
    const folder = place();
    const random = createRandom(19);
    let step = 0;
    for (let kill = 0; kill < rounds(3, 20); kill++) {
      const writer = startWriter(folder, [step + 1, 1_000_000]);
      while (writer.done() === 0) await sleep(1);
      await sleep(30 * random());
      writer.kill();
      expect(await writer.ended).toBe('SIGKILL');
      step = await readStep(folder);
      // It may have died between the end of a write and the report.
      expect(step - writer.done()).toBeOneOf([0, 1]);
    }
    await writeCheckpoint(folder, checkpointOf(step + 1));
    expect(readdirSync(folder).filter((name) => !isTemporary(name))).toHaveLength(2);
  });

  it('leaves a whole checkpoint when the power fails at any change', { timeout: 120_000 }, async () => {
    const former = place();
    await writeCheckpoint(former, checkpointOf(1));
    const copy = (): string => {
      const folder = join(place(), 'copy');
      mkdirSync(folder);
      cpSync(former, folder, { recursive: true });
      return folder;
    };
    const count = join(place(), 'count');
    const counted = copy();
    await startWriter(counted, [2, 2], { TORN_DIR: counted, TORN_COUNT: count }).ended;
    const changes = Number(readFileSync(count, 'utf8'));
    expect(changes).toBeGreaterThan(8);
    const steps: number[] = [];
    const all = Array.from({ length: changes }, (_, i) => i + 1);
    for (const at of new Set([...someOf(all, 4), changes])) {
      const folder = copy();
      const torn = { TORN_DIR: folder, TORN_AT: String(at), TORN_SEED: String(at) };
      expect(await startWriter(folder, [2, 2], torn).ended).toBe('SIGKILL');
      steps.push(await readStep(folder));
    }
    // Early failures leave the former checkpoint, late ones the new one.
    expect(new Set(steps)).toEqual(new Set([1, 2]));
    expect([steps[0], steps.at(-1)]).toEqual([1, 2]);
  });
});
