/** The program that uses the package finds its process as it was; telemetry is off all the same. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ResolvedDevice } from '../../../../src/run/runtime/lanes/device.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { runScript } from '../../../support/run.js';

const path = join(scratchFolder(), 'model.onnx');
writeFileSync(path, tinyResNet());
const model = JSON.stringify(path);
const TELEMETRY = 'ORT_DISABLE_TELEMETRY';
const ORDER = 'CUDA_DEVICE_ORDER';
const unset = { [TELEMETRY]: undefined, [ORDER]: undefined };
const device = (type: ResolvedDevice['type']): ResolvedDevice => ({ type, id: 0, threads: 0 });

describe('borrowEnvironment', () => {
  let borrow: (place: ResolvedDevice) => (opened?: ResolvedDevice) => void;
  const now = (): (string | undefined)[] => [process.env[TELEMETRY], process.env[ORDER]];

  beforeEach(async () => {
    vi.stubEnv(TELEMETRY, undefined);
    vi.stubEnv(ORDER, undefined);
    vi.resetModules();
    borrow = (await import('../../../../src/run/runtime/lanes/host-environment.js')).borrowEnvironment;
  });
  afterEach(() => void vi.unstubAllEnvs());

  it('sets what the device needs until the session is open', () => {
    const giveBack = borrow(device('cpu'));
    expect(now()).toEqual(['1', undefined]);
    giveBack(device('cpu'));
    expect(now()).toEqual([undefined, undefined]);
    expect(TELEMETRY in process.env).toBe(false);
    const cuda = borrow(device('cuda'));
    // The telemetry switch has been read before.
    expect(now()).toEqual([undefined, 'PCI_BUS_ID']);
    cuda(device('cuda'));
    borrow(device('cuda'));
    expect(now()).toEqual([undefined, undefined]);
  });

  it('sets it again after a failure, or if "auto" fell back to the CPU', () => {
    borrow(device('auto'))();
    expect(now()).toEqual([undefined, undefined]);
    const auto = borrow(device('auto'));
    expect(now()).toEqual(['1', 'PCI_BUS_ID']);
    auto(device('cpu'));
    borrow(device('auto'));
    expect(now()).toEqual([undefined, 'PCI_BUS_ID']);
  });

  it('keeps it as long as another session opens, and counts each session once', () => {
    const first = borrow(device('cpu'));
    const second = borrow(device('cpu'));
    first(device('cpu'));
    first();
    expect(now()).toEqual(['1', undefined]);
    second();
    expect(now()).toEqual([undefined, undefined]);
  });

  it('leaves what the program has set, before or meanwhile', () => {
    process.env[TELEMETRY] = '0';
    const giveBack = borrow(device('cuda'));
    process.env[ORDER] = 'FASTEST_FIRST';
    giveBack(device('cuda'));
    expect(now()).toEqual(['0', 'FASTEST_FIRST']);
  });
});

describe('a program that uses the package', () => {
  /** Prints what differs from before, at several moments. */
  const script = (moments: string): string => `
    const read = () => ({
      env: { ...process.env },
      globals: Object.getOwnPropertyNames(globalThis),
      listeners: process.eventNames().map((name) => [String(name), process.listenerCount(name)]),
      rest: [process.cwd(), process.umask(), process.exitCode, process.report.excludeNetwork, process.title],
    });
    const before = read();
    const differences = {};
    const look = (moment) => {
      const now = read();
      differences[moment] = Object.keys(before).filter((key) => JSON.stringify(now[key]) !== JSON.stringify(before[key]));
    };
    ${moments}
    console.log(JSON.stringify(differences));`;
  const changes = async (moments: string): Promise<unknown> => {
    const ended = await runScript(script(moments), { env: unset });
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    return JSON.parse(ended.stdout);
  };

  it('finds its environment, globals and listeners unchanged', async () => {
    const moments = `
      const { createFeatureExtractor, listDevices } = await import('onnx-tapir');
      look('imported');
      await listDevices();
      look('listed');
      const extractor = await createFeatureExtractor(${model}, { layer1: 'f' });
      const data = new Float32Array(3 * 64 * 64);
      await extractor.run({ dtype: 'float32', dims: [1, 3, 64, 64], data });
      look('run');
      await extractor.close();
      look('closed');`;
    // While sessions are open, an exit waits for them.
    expect(await changes(moments)).toEqual({ imported: [], listed: [], run: ['listeners'], closed: [] });
  });

  it('has the two variables only while its first session opens', async () => {
    const moments = `
      const { createFeatureExtractor } = await import('onnx-tapir');
      const seen = new Set();
      const timer = setInterval(() => {
        for (const name of Object.keys(process.env)) if (!(name in before.env)) seen.add(name);
      }, 1);
      const open = () => createFeatureExtractor(${model}, { layer1: 'f' });
      const first = await open();
      differences.first = [...seen];
      seen.clear();
      await (await open()).close();
      differences.second = [...seen];
      clearInterval(timer);
      await first.close();`;
    expect(await changes(moments)).toEqual({ first: [TELEMETRY], second: [] });
  });

  it('finds its environment unchanged if no session could be opened', async () => {
    const moments = `
      const { createFeatureExtractor } = await import('onnx-tapir');
      const options = { session: { extra: { session: { disable_cpu_ep_fallback: 'no' } }, graphOptimizationLevel: 'all' } };
      await createFeatureExtractor('no-such-file.onnx', ['x']).catch(() => undefined);
      await createFeatureExtractor(${model}, ['fc'], { device: 'webgpu', ...options }).catch(() => undefined);
      look('failed');`;
    expect(await changes(moments)).toEqual({ failed: [] });
  });
});

describe('telemetry of onnxruntime', () => {
  const open = `await (await createFeatureExtractor(${model}, ['layer1'])).close();`;
  const twice = `const { createFeatureExtractor } = await import('onnx-tapir'); ${open} ${open}`;

  it('writes no file about the model, also when the variable is removed again', async () => {
    const home = scratchFolder();
    const env = { HOME: home, XDG_CACHE_HOME: home, CI: undefined, ...unset };
    const ended = await runScript(twice, { env });
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(readdirSync(home, { recursive: true })).toEqual([]);
  });

  it('stays as the user set it', async () => {
    const ended = await runScript(`${twice} console.log(process.env.${TELEMETRY});`, {
      env: { [TELEMETRY]: '0', CI: 'true' },
    });
    expect(ended.stdout).toBe('0\n');
  });
});
