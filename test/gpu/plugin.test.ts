/**
 * A provider that is loaded at run time: that of WebGPU, on the GPU in software. ONNX Runtime gives plugins only the cards that
 * Linux lists, so the process gets a list of its own, in a mount namespace.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { driverSettings } from '../support/find-gpu.js';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { hasGpu } from '../support/gpu.js';
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
