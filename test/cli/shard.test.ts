/** The real command as several processes of a launcher: what they write together, and what becomes of one that fails. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, linkSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { fixturePath, projectPath, scratchFolder } from '../support/fixtures.js';
import { runTapir } from '../support/run.js';
import { vectorsOf } from '../support/vectors.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const photos = join(scratch, 'photos');
const WORLD = 3;
const COPIES = 120;

beforeAll(() => {
  writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
  mkdirSync(photos);
  const first = join(photos, 'sea-000.jpg');
  copyFileSync(projectPath('examples/photos/sea/sea-0.jpg'), first);
  const city = join(photos, 'city-000.jpg');
  copyFileSync(projectPath('examples/photos/city/city-0.jpg'), city);
  for (let copy = 1; copy < COPIES; copy++) {
    linkSync(first, join(photos, `sea-${String(copy).padStart(3, '0')}.jpg`));
    linkSync(city, join(photos, `city-${String(copy).padStart(3, '0')}.jpg`));
  }
  copyFileSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'cut.jpg'));
});

const SETTINGS = '--batch 4 --set shardSize=16 --set sessions=1 --set threads=1 --set checksum=true'.split(
  ' ',
);
const flags = (out: string): string[] => [
  'embed',
  photos,
  '--model',
  model,
  '--return',
  'avgpool=f',
  '--out',
  out,
  ...SETTINGS,
];
const torchrun = (rank: number): Record<string, string> => ({
  RANK: `${rank}`,
  WORLD_SIZE: `${WORLD}`,
  LOCAL_RANK: `${rank}`,
  LOCAL_WORLD_SIZE: `${WORLD}`,
});

describe('tapir embed --shard auto', () => {
  it('as three processes at once, one of them killed and started again, and merged: what one process writes', async () => {
    const whole = join(scratch, 'whole');
    expect(await runTapir(flags(whole))).toMatchObject({ code: 1 });
    const out = join(scratch, 'out');
    const args = [projectPath('dist/lib/bin.cjs'), ...flags(out), '--shard', 'auto'];
    const start = (rank: number): ReturnType<typeof spawn> =>
      spawn(process.execPath, args, { env: { ...process.env, ...torchrun(rank) }, stdio: 'ignore' });
    const children = [0, 1, 2].map(start);
    const ends = children.map((child) => once(child, 'exit'));
    const journal = join(out, 'parts/1-of-3/journal.jsonl');
    const lines = (): number =>
      existsSync(journal) ? readFileSync(journal, 'utf8').split('\n').length - 1 : 0;
    while (children[1]!.exitCode === null && lines() < 3) await sleep(1);
    children[1]!.kill('SIGKILL');
    // One with an input that fails has done its work all the same: a launcher would start it again otherwise.
    expect(await Promise.all(ends)).toEqual([
      [0, null],
      [null, 'SIGKILL'],
      [0, null],
    ]);
    const early = await runTapir(['merge', out]);
    expect(early).toMatchObject({ code: 4, stdout: '' });
    expect(early.stderr).toMatch(/parts are missing or unfinished: parts\/1-of-3; .*\[DATASET_INCOMPLETE\]/);

    const left = lines();
    expect(await once(start(1), 'exit')).toEqual([0, null]);
    expect(lines()).toBeGreaterThan(left);
    const merged = await runTapir(['merge', out, '--source', photos]);
    expect(merged).toMatchObject({ code: 1, stderr: '' });
    expect(merged.stdout).toMatch(/^3 parts merged: 241 inputs, 1 of them failed/);
    expect(await vectorsOf(out)).toEqual(await vectorsOf(whole));
    const json = await runTapir(['merge', out, '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      event: 'done',
      parts: 3,
      manifest: { counts: { inputs: 241 } },
    });
  });

  it('tells how to go on, and takes a part by hand', async () => {
    const out = join(scratch, 'by-hand');
    const ended = await runTapir([...flags(out), '--shard', '39/40']);
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(ended.stdout).toContain(
      `part 39 of 40; when all parts are done, all with this --out: tapir merge ${out}`,
    );
    expect(existsSync(join(out, 'parts/39-of-40/manifest.json'))).toBe(true);
  });

  it('alone is one part of one, and an Indexed Job says how many', async () => {
    const out = join(scratch, 'alone');
    const env = { RANK: '', WORLD_SIZE: '' };
    expect(await runTapir([...flags(out), '--shard', 'auto'], { env })).toMatchObject({ code: 0 });
    expect(existsSync(join(out, 'parts/0-of-1/manifest.json'))).toBe(true);
    const job = { env: { JOB_COMPLETION_INDEX: '11' } };
    const indexed = await runTapir([...flags(join(scratch, 'job')), '--shard', 'auto/40'], job);
    expect(indexed.stdout).toContain('parts/11-of-40');
  });

  it.each<[string, string, Record<string, string>, RegExp]>([
    [
      'half an environment',
      'auto',
      { WORLD_SIZE: '2' },
      /WORLD_SIZE set, RANK, LOCAL_RANK are not.*\[LAUNCHER_INVALID\]/,
    ],
    ['a part that is not there', '3/3', {}, /tapir: --shard.index must be an integer from 0 to 2, got 3/],
    ['something else', 'some', {}, /It must be i\/n with i from 0, or auto/],
  ])('refuses %s', async (_, shard, env, message) => {
    const out = join(scratch, 'refused');
    const ended = await runTapir([...flags(out), '--shard', shard], { env });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(message);
    expect(existsSync(out)).toBe(false);
  });

  it('takes the GPU of its number on the machine', async () => {
    const device = (args: string[]): Promise<{ stderr: string; code: number | null }> =>
      runTapir([...flags(join(scratch, 'gpu')), '--shard', 'auto', ...args], {
        env: { ...torchrun(2), CUDA_VISIBLE_DEVICES: '' },
      });
    const own = await device(['--device', 'cuda']);
    expect(own.code).toBe(3);
    expect(own.stderr).toMatch(/cuda:2.*\[DEVICE_UNAVAILABLE\]/);
    expect((await device(['--device', 'cuda:0'])).stderr).toMatch(/cuda:0.*\[DEVICE_UNAVAILABLE\]/);
    // Where there is none, auto is what it was.
    expect((await device(['--device', 'auto'])).stderr).toMatch(/fell back to the CPU/);
  });
});

describe('the error file of torchrun', () => {
  const contentOf = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));

  it('has the message with its code, and the stack', async () => {
    const file = join(scratch, 'error.json');
    const env = { TORCHELASTIC_ERROR_FILE: file };
    const ended = await runTapir(['nodes', join(scratch, 'none.onnx')], { env });
    expect(ended.code).toBe(3);
    expect(contentOf(file)).toEqual({
      message: {
        message: expect.stringMatching(/^tapir: there is no file .*\[MODEL_UNREADABLE\]$/) as string,
        extraInfo: {
          py_callstack: expect.stringMatching(/\[MODEL_UNREADABLE\]\n[\s\S]*\n {4}at .*runNodes/) as string,
          timestamp: expect.stringMatching(/^\d{10}$/) as string,
        },
      },
    });
  });

  it('is written for wrong flags, and not for help, success or a signal', async () => {
    const file = (name: string): { path: string; env: Record<string, string> } => {
      const path = join(scratch, `${name}.json`);
      return { path, env: { TORCHELASTIC_ERROR_FILE: path } };
    };
    const wrong = file('wrong');
    expect((await runTapir(['nodes', '--many'], { env: wrong.env })).code).toBe(2);
    expect(contentOf(wrong.path)).toMatchObject({
      message: { message: expect.stringContaining('--many') as string },
    });
    const fine = file('fine');
    expect((await runTapir(['--help'], { env: fine.env })).code).toBe(0);
    expect((await runTapir(['nodes', model], { env: fine.env })).code).toBe(0);
    const out = join(scratch, 'stopped');
    const signal = { name: 'SIGTERM', when: () => existsSync(join(out, 'features')) } as const;
    expect((await runTapir(flags(out), { env: fine.env, signal })).code).toBe(143);
    expect(existsSync(fine.path)).toBe(false);
    // A place that cannot be written changes nothing.
    const nowhere = { TORCHELASTIC_ERROR_FILE: join(scratch, 'no/such/folder.json') };
    expect((await runTapir(['nodes', join(scratch, 'none.onnx')], { env: nowhere })).code).toBe(3);
  });
});
