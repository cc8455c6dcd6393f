/** Devices that slow others down: found by memory, with one warning. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readDevices } from '../../../../src/run/runtime/lanes/device.js';
import { findImbalance, memoryFigures, warnOfMemory } from '../../../../src/run/runtime/devices/balance.js';
import { describeGpus } from '../../../../src/run/runtime/devices/device-list.js';
import { parseGpus } from '../../../../src/run/runtime/devices/nvidia-smi.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { answering, playNvidiaSmi, QUERY, UUIDS } from '../../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => void vi.unstubAllEnvs());

describe('findImbalance', () => {
  const of = (...values: number[]) =>
    findImbalance(values.map((value, i) => ({ device: `cuda:${i}`, value })));

  it.each([[[]], [[5]], [[75, 100]], [[100, 100, 76]], [[0, 0]]])('finds none in %j', (values) =>
    expect(of(...values)).toBeUndefined(),
  );

  it('finds the extremes if the smallest has less than 75 % of the largest', () =>
    expect(of(90, 74, 100)).toEqual({
      least: { device: 'cuda:1', value: 74 },
      most: { device: 'cuda:2', value: 100 },
    }));
});

describe('GPUs that share a batch', () => {
  it('are compared by memory, once, as torch does', async () => {
    vi.stubEnv('PATH', playNvidiaSmi(join(scratch, 'unequal'), answering(QUERY)));
    vi.stubEnv('CUDA_VISIBLE_DEVICES', undefined);
    const listed = describeGpus({ gpus: parseGpus(QUERY), source: 'nvidia-smi', problem: null }, undefined);
    const devices = readDevices('devices', ['cuda:0', { type: 'cuda', id: UUIDS[1] }, 'cuda:2', 'cpu']);
    expect(memoryFigures(devices, listed)).toEqual([
      { device: 'cuda:0', value: 81559 * 2 ** 20 },
      { device: `cuda:${UUIDS[1]}`, value: 40960 * 2 ** 20 },
    ]);
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    await warnOfMemory(devices);
    await warnOfMemory(readDevices('devices', ['cuda:0', 'cpu']));
    await warnOfMemory(readDevices('devices', ['cuda:0', 'cuda:2']));
    expect(warn.mock.calls).toEqual([
      [expect.stringContaining('has 50 % of the memory of cuda:0'), { code: 'TAPIR_DEVICES_UNBALANCED' }],
    ]);
    warn.mockRestore();
  });
});
