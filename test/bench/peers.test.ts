/** The comparison with peers, as far as it needs neither Python nor a network nor time. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import sharp from 'sharp';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { compareAll, compareFeatures, peerFeatures } from '../../bench/peers/compare.js';
import { askForOpenvino } from '../../bench/peers/doctor.js';
import { saveNpy } from '../../bench/peers/npy.js';
import { PEER_NAMES } from '../../bench/peers/peer-table.js';
import { listPeers } from '../../bench/peers/peers.js';
import { makePhotos } from '../../bench/peers/photos.js';
import { prepare } from '../../bench/peers/prepare.js';
import { runCommand, type Run } from '../../bench/peers/processes.js';
import { summarize } from '../../bench/peers/summary.js';
import { projectPath, scratchFolder, tinyResNet } from '../support/fixtures.js';
import { readNpy } from '../support/npy.js';

const scratch = scratchFolder();
const isLinux = process.platform === 'linux';

afterEach(() => vi.unstubAllEnvs());

describe('runCommand', () => {
  /** Uses 0.3 s of CPU time, however long that takes. */
  const burn = 'const t = process.cpuUsage(); while (process.cpuUsage(t).user < 300_000);';
  const hold = `const held = Buffer.alloc(200e6, 1);
    require('node:child_process').execFileSync(process.execPath, ['-e', ${JSON.stringify(burn)}]);
    ${burn} console.log('some line'); console.log(JSON.stringify({ n: held[7] }));`;

  it.runIf(isLinux)('counts the CPU time of children, and the memory held', async () => {
    const run = await runCommand({ file: process.execPath, args: ['-e', hold] });
    expect(run.printed).toEqual({ n: 1 });
    expect(run.cpuS).toBeGreaterThanOrEqual(0.58);
    expect(run.wallS).toBeGreaterThan(0.29);
    expect(run.rssMb).toBeGreaterThan(200);
    expect(run.othersShare).toBeGreaterThanOrEqual(0);
  });

  it('throws what a command that fails wrote, and when there is no such command', async () => {
    const args = ['-e', 'console.error("no such folder"); process.exit(3)'];
    await expect(runCommand({ file: process.execPath, args })).rejects.toThrow(
      /ended with 3:\nno such folder/,
    );
    await expect(runCommand({ file: join(scratch, 'nothing'), args: [] })).rejects.toThrow(/ENOENT/);
  });
});

describe('listPeers', () => {
  it('names those that cannot run here, with the reason', () => {
    // Without engines that were installed on this machine.
    vi.stubEnv('XDG_CACHE_HOME', join(scratch, 'cache'));
    vi.stubEnv('OPENVINO_LIBS', undefined);
    const paths = { model: '', pruned: '', hub: '', checkpoint: undefined, photos: '', onePhoto: '' };
    const prepared = { ...paths, request: ['avgpool'], count: 1 };
    const programs = { python: join(scratch, 'python'), npm: undefined, openvinoLibs: undefined };
    const setting = { ...programs, batch: 8, threads: 1, work: scratch };
    const { peers, skipped } = listPeers(PEER_NAMES, prepared, setting);
    expect(peers.map(({ name }) => name)).toEqual([
      'tapir',
      'naive',
      'limit',
      'limit-workers',
      'limit-decode',
    ]);
    expect(
      skipped.map(({ name, reason }) => [name, /ENOENT|--npm|OpenVINO libraries/.exec(reason)?.[0]]),
    ).toEqual([
      ['tapir-openvino-float32', 'OpenVINO libraries'],
      ['tapir-openvino-bfloat16', 'OpenVINO libraries'],
      ['torchvision', 'ENOENT'],
      ['torchvision-channels-last', 'ENOENT'],
      ['torchvision-bfloat16', 'ENOENT'],
      ['torchvision-bfloat16-workers', 'ENOENT'],
      ['python-onnxruntime', 'ENOENT'],
      ['python-openvino', 'ENOENT'],
      ['transformers.js', '--npm'],
      ['limit-openvino-float32', 'OpenVINO libraries'],
      ['limit-openvino-bfloat16', 'OpenVINO libraries'],
    ]);
  });
});

describe('askForOpenvino', () => {
  it('hears from the program why an engine does not work, not from its help', () => {
    const folder = join(scratch, 'no-libraries');
    mkdirSync(folder, { recursive: true });
    const { name, isWorking, reason } = askForOpenvino(folder);
    expect([name, isWorking]).toEqual(['openvino', false]);
    expect(reason).toContain(folder);
  });
});

/** A run of so many seconds, of which as many again are CPU time. */
const run = (wallS: number, othersShare = 0, printed: Run['printed'] = {}): Run => ({
  wallS,
  cpuS: 2 * wallS,
  rssMb: 100,
  pssMb: null,
  othersShare,
  printed,
});

describe('summarize', () => {
  const peers = ['tapir', 'naive', 'limit'].map((name) => ({ name, what: '' }));
  const full = {
    tapir: [run(4), run(8, 0.6), run(2)],
    naive: [run(8), run(8, 0.5), run(6)],
    limit: [4, 4, 4].map((loopS) => run(50, 0, { n: 16, loopS, loopCpuS: 8 })),
  };
  const starts = { tapir: [run(1), run(1), run(1)], naive: [run(0.5), run(2), run(1)] };
  const summary = summarize(peers, 11, full, starts);

  it('takes ratios round by round, also of the quiet rounds alone', () => {
    const [naive, limit] = summary.against;
    expect(naive!.speed).toEqual({ median: 2, min: 1, max: 3 });
    expect(naive!.quietSpeed).toEqual({ median: 2.5, min: 2, max: 3 });
    expect(naive!.sustained!.median).toBeCloseTo(7 / 3);
    expect(naive!.start).toEqual({ median: 1, min: 0.5, max: 2 });
    expect(naive!.bars.map(({ holds }) => holds)).toEqual([true, true]);
    expect(limit).toMatchObject({ start: null, bars: [] });
  });

  it('takes a limit from its loop, and says nothing where something is not known', () => {
    expect(summary.peers[2]).toMatchObject({
      imagesPerS: { median: 4 },
      cpuSPerImage: { median: 0.5 },
      startS: null,
    });
    expect(summary.peers[0]).toMatchObject({
      imagesPerS: { median: 2.75 },
      rssMb: { median: 100 },
      pssMb: null,
    });
    expect(summary.othersShare.full).toEqual([0, 0.6, 0]);
  });
});

describe('summarize, with several of ours', () => {
  const names = ['tapir', 'tapir-openvino-bfloat16', 'python-openvino', 'naive'];
  const limits = ['limit-openvino-bfloat16', 'limit-decode'];
  const peers = [...names, ...limits].map((name) => ({ name, what: '' }));
  const loop = (n: number): Run => run(50, 0, { n, loopS: 1, loopCpuS: 1 });
  const full = {
    tapir: [run(8), run(10)],
    'tapir-openvino-bfloat16': [run(2), run(2.5)],
    'python-openvino': [run(4), run(2)],
    naive: [run(8), run(8)],
    'limit-openvino-bfloat16': [loop(20), loop(15)],
    'limit-decode': [loop(20), loop(30)],
  };
  const all = (wallS: number): Run[] => [run(wallS), run(wallS)];
  const starts = {
    tapir: all(1),
    'tapir-openvino-bfloat16': all(1.5),
    'python-openvino': all(1),
    naive: all(0.5),
  };
  const cached = { tapir: all(1), 'tapir-openvino-bfloat16': all(1) };
  const { peers: figures, against, ceilings } = summarize(peers, 11, full, starts, cached);
  const find = (ours: string, peer: string) =>
    against.find((ratio) => ratio.ours === ours && ratio.peer === peer);

  it('compares each of them with every peer, and with those of ours that come first', () => {
    const bfloat16 = find('tapir-openvino-bfloat16', 'tapir');
    expect(bfloat16).toMatchObject({ speed: { median: 4 }, bars: [{ what: 'speed', holds: true }] });
    expect(find('tapir', 'tapir-openvino-bfloat16')).toBeUndefined();
    const openvino = find('tapir-openvino-bfloat16', 'python-openvino');
    expect(openvino!.speed).toEqual({ median: 1.4, min: 0.8, max: 2 });
    const naive = find('tapir-openvino-bfloat16', 'naive');
    expect(naive).toMatchObject({ start: { median: 3 }, cachedStart: { median: 2 } });
    expect(naive!.bars.map(({ what, holds }) => [what, holds])).toEqual([
      ['start', false],
      ['cachedStart', false],
    ]);
  });

  it('leaves out the start with a filled cache, as runs on all photos have it', () => {
    expect(figures[1]).toMatchObject({ sustainedPerS: { max: 10 }, cachedStartS: { median: 1 } });
    expect(figures[2]).toMatchObject({ sustainedPerS: { max: 10 }, cachedStartS: null });
  });

  it('holds them to decoding and the model, one after the other, where both limits ran', () => {
    expect(ceilings).toHaveLength(1);
    expect(ceilings[0]).toMatchObject({
      ours: 'tapir-openvino-bfloat16',
      ceilingPerS: { min: 10, max: 10 },
      share: { min: expect.closeTo(0.44) as number, max: 0.55 },
      sustainedShare: { max: 1 },
    });
  });
});

describe('what peers write', () => {
  const write = (name: string, rows: number, layer4: number[], avgpool: number[]) => {
    const out = join(scratch, name);
    mkdirSync(out);
    saveNpy(join(out, 'layer4.npy'), [rows, layer4.length / rows], [Float32Array.from(layer4)]);
    saveNpy(join(out, 'avgpool.npy'), [rows, avgpool.length / rows], [Float32Array.from(avgpool)]);
    return peerFeatures(out, ['layer4', 'avgpool']);
  };

  it('is compared row by row', () => {
    const a = write('a', 2, [1, 2, 3, 4], [1, 0, 0, 1]);
    const b = write('b', 2, [1, 2, 3, 4], [-1, 0, 0, 3]);
    const { layer4, avgpool } = compareFeatures(a, b);
    expect(layer4).toMatchObject({ cosine: { min: expect.closeTo(1) as number }, mostApart: 0 });
    expect(avgpool).toEqual({ cosine: { median: 0, min: -1, max: 1 }, mostApart: 2, ofRange: 0.5 });
    expect(() => compareFeatures(a, write('c', 1, [1], [1]))).toThrow(/is \[2, 2\]/);
  });

  it('is compared with torchvision, and of ours with ONNX Runtime, to a bar', () => {
    const ours = write('tapir', 1, [1, 2], [1, 2]);
    const peers = [
      { name: 'tapir', features: ours },
      { name: 'tapir-openvino-float32', features: write('f32', 1, [1, 2.001], [1, 2]) },
      { name: 'tapir-openvino-bfloat16', features: write('bf16', 1, [1, 2.001], [2, 1]) },
      { name: 'naive', features: write('naive', 1, [1, 1], [1, 1]) },
      { name: 'limit', features: null },
    ];
    const alone = compareAll(peers);
    expect(alone.map(({ name, reference, holds }) => [name, reference, holds])).toEqual([
      ['tapir-openvino-float32', 'tapir', { layer4: false, avgpool: true }],
      ['tapir-openvino-bfloat16', 'tapir', { layer4: true, avgpool: false }],
      ['naive', 'tapir', {}],
    ]);
    const both = compareAll([...peers, { name: 'torchvision', features: ours }]);
    expect(both.map(({ name, reference }) => `${name} / ${reference}`)).toEqual([
      'tapir / torchvision',
      'tapir-openvino-float32 / torchvision',
      'tapir-openvino-bfloat16 / torchvision',
      'naive / torchvision',
      'tapir-openvino-float32 / tapir',
      'tapir-openvino-bfloat16 / tapir',
    ]);
  });

  it('is read as it was written', () => {
    const path = join(scratch, 'one.npy');
    saveNpy(path, [3], [Float32Array.of(1, 2), Float32Array.of(3)]);
    expect(readNpy(path)).toEqual({ dtype: 'float32', dims: [3], data: Float32Array.of(1, 2, 3) });
    expect(readFileSync(path).length % 64).toBe(12);
  });
});

describe('photos and models for all', () => {
  it('makes the same photos each time, and gives the model the names that transformers.js asks for', async () => {
    const [first, second] = [join(scratch, 'first'), join(scratch, 'second')];
    const paths = await makePhotos(first, 4);
    const again = await makePhotos(second, 4);
    for (const [i, path] of paths.entries()) {
      const { width, height } = await sharp(path).metadata();
      expect(Math.abs(width + height - 875)).toBeLessThanOrEqual(24);
      expect(readFileSync(path).equals(readFileSync(again[i]!))).toBe(true);
    }
    const model = join(scratch, 'tiny.onnx');
    writeFileSync(model, tinyResNet());
    const prepared = await prepare(scratch, paths, { file: model, request: ['layer4', 'avgpool'] });
    const { inputs, outputs } = await openModel(prepared.pruned);
    expect(inputs.map(({ name }) => name)).toEqual(['pixel_values']);
    expect(outputs.map(({ name }) => name)).toEqual(['last_hidden_state', 'pooler_output']);
    const other = await prepare(scratch, paths, { file: model, request: ['layer3'] });
    expect((await openModel(other.pruned)).outputs).toHaveLength(1);
    expect(other).toMatchObject({ hub: undefined, checkpoint: join(scratch, 'tiny.pth') });
  });
});

describe('bench/peers/preprocess_tapir', () => {
  it('gives a digest per photo and what the passes took', async () => {
    const folder = join(scratch, 'two');
    await makePhotos(folder, 2);
    const script = projectPath('bench/peers/preprocess_tapir.js');
    const printed = JSON.parse(
      execFileSync(process.execPath, [script, folder, '1'], { encoding: 'utf8' }),
    ) as {
      readonly digests: readonly string[];
    };
    expect(printed).toMatchObject({ images: 2, loopCpuS: expect.any(Number) as number });
    expect(new Set(printed.digests).size).toBe(2);
  });
});
