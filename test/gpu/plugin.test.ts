/**
 * A provider that is loaded at run time: that of WebGPU, on the GPU in software. ONNX Runtime gives plugins only the cards that
 * Linux lists, so the process gets a list of its own, in a mount namespace.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { isRelease } from '../support/rounds.js';
import { driverSettings } from '../support/find-gpu.js';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { hasGpu } from '../support/gpu.js';
import { runTapir } from '../support/run.js';
import { smallNet } from '../support/small-net.js';
import { negModel } from '../support/tiny-models.js';

const scratch = scratchFolder();
const library = process.env['TEST_PLUGIN'];

const LIST = `
mount -t tmpfs tmpfs /sys/class && mkdir -p /sys/class/drm/card0/device && cd /sys/class/drm/card0/device &&
echo 0x1ae0 > vendor && echo 0xc0de > device && echo 0x030000 > class && cd "$0" && exec "$@"`;

/** Runs a command that sees a graphics card. */
function seeingCard(...command: readonly string[]) {
  return spawnSync('unshare', ['-rm', 'bash', '-c', LIST, projectPath('.'), ...command], {
    encoding: 'utf8',
    env: { ...process.env, ...driverSettings(), NODE_OPTIONS: '' },
  });
}

const canRun = hasGpu && library !== undefined && seeingCard('true').status === 0;

const hasCompiler = spawnSync('cc', ['--version']).status === 0;

/** Megabytes after half of the sessions, and after all: means of twenty, because they vary by 50 from one to the next. */
const MANY = `
import { readFileSync } from 'node:fs';
import { createFeatureExtractor } from 'onnx-tapir';
const [library, path, rounds] = process.argv.slice(1);
const model = readFileSync(path);
const dims = [1, 3, 16, 16];
const held = [];
for (let i = 0; i < Number(rounds); i++) {
  const extractor = await createFeatureExtractor(model, ['logits'], { device: 'plugin:' + library });
  await extractor.run({ dtype: 'float32', dims, data: new Float32Array(3 * 16 * 16).fill(i) });
  await extractor.close();
  gc();
  held.push(process.memoryUsage.rss() / 1e6);
}
const meanBefore = (end) => held.slice(end - 20, end).reduce((sum, one) => sum + one / 20, 0);
console.log(JSON.stringify({ early: meanBefore(held.length / 2), late: meanBefore(held.length), count: held.length }));`;

const COMPARE = `
import { readFileSync } from 'node:fs';
import { createFeatureExtractor, DataParallel } from 'onnx-tapir';
const [library, path] = process.argv.slice(1);
const model = readFileSync(path);
const device = 'plugin:' + library;
const dims = [3, 3, 16, 16];
const data = Float32Array.from({ length: 3 * 3 * 16 * 16 }, (_, i) => Math.sin(i * 0.37));
const results = [];
for (const one of ['cpu', device, device]) {
  const extractor = await createFeatureExtractor(model, ['logits'], { device: one });
  results.push({ device: extractor.device, logits: [...(await extractor.run({ dtype: 'float32', dims, data })).logits.data] });
  await extractor.close();
}
const source = await createFeatureExtractor(model, ['logits']);
const parallel = await DataParallel.create(source, { devices: ['cpu', device], split: 'balanced' });
results.push({ device: 'both', logits: [...(await parallel.run({ dtype: 'float32', dims, data })).logits.data] });
await parallel.close();
await source.close();
const failure = await createFeatureExtractor(model, ['logits'], { device: device + ':7' }).catch(({ code, message }) => ({ code, message }));
console.log(JSON.stringify({ results, failure }));`;

describe('a plugin', () => {
  // Six seconds: the only plugin that can be had without a GPU, alone and beside the CPU.
  it.skipIf(!canRun)('runs models as the CPU does, alone and beside it, and says what it offers', () => {
    const path = join(scratch, 'small.onnx');
    writeFileSync(path, smallNet());
    const ran = seeingCard(process.execPath, '--input-type=module', '-e', COMPARE, '--', library!, path);
    expect(ran.stderr).not.toContain('Error');
    const { results, failure } = JSON.parse(ran.stdout) as {
      readonly results: readonly { readonly device: string; readonly logits: readonly number[] }[];
      readonly failure: object;
    };
    const [cpu, ...others] = results;
    expect(others.map(({ device }) => device)).toEqual([`plugin:${library}`, `plugin:${library}`, 'both']);
    const range = Math.max(...cpu!.logits.map(Math.abs));
    for (const { logits } of others)
      expect(Math.max(...logits.map((value, i) => Math.abs(value - cpu!.logits[i]!)))).toBeLessThan(
        2e-4 * range,
      );
    expect(failure).toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringContaining(`offers plugin:${library}:0`),
    });
  });

  it.skipIf(process.platform !== 'linux')(
    'is refused if it is damaged, missing, or for another binding',
    async () => {
      const damaged = join(scratch, 'libdamaged.so');
      writeFileSync(damaged, 'no library');
      const open = (device: `plugin:${string}`, binding: 'auto' | 'node' = 'auto') =>
        createFeatureExtractor(negModel(), ['y'], { device, binding });
      await expect(open(`plugin:${damaged}`)).rejects.toMatchObject({
        code: 'DEVICE_UNAVAILABLE',
        message: expect.stringContaining('cannot load the plugin'),
      });
      await expect(open(`plugin:${join(scratch, 'libmissing.so')}`)).rejects.toMatchObject({
        code: 'DEVICE_UNAVAILABLE',
        message: expect.stringContaining('does not exist'),
      });
      // The tests have an empty cache folder.
      await expect(open('plugin:tensorrt-rtx')).rejects.toMatchObject({
        code: 'DEVICE_UNAVAILABLE',
        message: expect.stringContaining('tapir engines install tensorrt-rtx-plugin'),
      });
      await expect(open('plugin:webgpu', 'node')).rejects.toMatchObject({ code: 'ENGINE_UNSUPPORTED' });
    },
  );

  it.skipIf(process.platform !== 'linux' || !hasCompiler)(
    'is refused if it is no plugin, needs another version of the API, or has nothing to offer',
    async () => {
      const open = (name: string, body: string) => {
        const path = join(scratch, `lib${name}.so`);
        const ended = spawnSync('cc', ['-shared', '-fPIC', '-x', 'c', '-', '-o', path], { input: body });
        expect(String(ended.stderr)).toBe('');
        return createFeatureExtractor(negModel(), ['y'], { device: `plugin:${path}` });
      };
      const entry = (body: string): string => `#include <stddef.h>
typedef struct { const void *(*GetApi)(unsigned); } Base;
void *CreateEpFactories(const char *name, const Base *base, const void *log, void **made, size_t most, size_t *count) {${body}}
void *ReleaseEpFactory(void *factory) { return NULL; }`;
      for (const [name, body, says] of [
        ['other', 'int answer(void) { return 42; }', 'cannot load the plugin'],
        [
          'newer',
          // What a plugin answers whose version of the API this runtime does not have: OrtApi begins with CreateStatus.
          entry(
            'if (base->GetApi(1000)) return NULL; typedef void *(*Create)(int, const char *); return (*(Create *)base->GetApi(1))(1, "it needs API 1000");',
          ),
          'it needs API 1000',
        ],
        ['empty', entry('*count = 0; return NULL;'), 'plugin'],
      ] as const)
        await expect(open(name, body), name).rejects.toMatchObject({
          code: 'DEVICE_UNAVAILABLE',
          message: expect.stringContaining(says),
        });
    },
  );

  // A session takes five seconds here, so that this runs before a release only.
  const sessions = 200;
  it.skipIf(!canRun || !isRelease)('holds no more memory after many sessions', { timeout: 3_600_000 }, () => {
    const path = join(scratch, 'many.onnx');
    writeFileSync(path, smallNet());
    const ran = seeingCard(
      process.execPath,
      '--expose-gc',
      '--input-type=module',
      '-e',
      MANY,
      '--',
      library!,
      path,
      String(sessions),
    );
    expect(ran.stderr).not.toContain('Error');
    const { early, late, count } = JSON.parse(ran.stdout) as Record<'early' | 'late' | 'count', number>;
    expect(count).toBe(sessions);
    // The plugin keeps about a megabyte of each session on the driver in software.
    expect((late - early) / (count / 2)).toBeLessThan(2);
  });

  it.skipIf(library === undefined || process.platform !== 'linux')('is removed without a trace', async () => {
    const home = join(scratch, 'home');
    const engines = join(home, 'onnx-tapir/engines');
    const [folder, version] = /^.*(webgpu-plugin-[^/]+)/.exec(library!)!;
    cpSync(folder, join(engines, version!), { recursive: true });
    const env = { ...process.env, XDG_CACHE_HOME: home };
    const listed = await runTapir(['engines', 'list'], { env });
    expect(listed.stdout).toContain(join(engines, version!));
    const removed = await runTapir(['engines', 'remove', 'webgpu-plugin'], { env });
    expect(removed).toMatchObject({ code: 0, stdout: `removed ${join(engines, version!)}\n` });
    expect(readdirSync(engines)).toEqual([]);
    const again = await runTapir(['engines', 'remove', 'webgpu-plugin'], { env });
    expect(again.stdout).toBe('webgpu-plugin is not installed\n');
  });

  it.skipIf(library === undefined || process.platform !== 'linux')(
    'says if it offers no device',
    async () => {
      await expect(
        createFeatureExtractor(negModel(), ['y'], { device: `plugin:${library!}` }),
      ).rejects.toMatchObject({
        code: 'DEVICE_UNAVAILABLE',
        message: expect.stringContaining('offers no device'),
      });
    },
  );
});
