/** `devices: 'all'`: every CUDA GPU that is visible, or the reason why there is none. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { namedDevices } from '../../../../src/run/runtime/devices/device-list.js';
import { hasDriver } from '../../../../src/run/runtime/devices/driver-files.js';
import { whyNoProvider } from '../../../../src/run/runtime/devices/provider-library.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { answering, playNvidiaSmi, QUERY } from '../../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => void vi.unstubAllEnvs());
const playGpus = (): void => void vi.stubEnv('PATH', playNvidiaSmi(join(scratch, 'smi'), answering(QUERY)));

describe('devices', () => {
  it('of a list are the list', async () => {
    const list = ['cpu:0', 'cpu:1'] as const;
    expect(await namedDevices(list)).toBe(list);
    expect(await namedDevices(undefined)).toBeUndefined();
  });

  it('"all" are refused where CUDA_VISIBLE_DEVICES hides every GPU', async () => {
    playGpus();
    vi.stubEnv('CUDA_VISIBLE_DEVICES', '-1');
    await expect(namedDevices('all')).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringMatching(
        /^devices "all" finds no GPU to run on: CUDA_VISIBLE_DEVICES="-1" hides the GPUs of this machine \(3\)\. Run "tapir doctor"/,
      ) as string,
      details: { device: 'all' },
    });
  });

  it('"all" are the visible GPUs, or the reason why their provider does not load', async () => {
    playGpus();
    vi.stubEnv('CUDA_VISIBLE_DEVICES', '2,1');
    const reason = whyNoProvider();
    if (reason === undefined) expect(await namedDevices('all')).toEqual(['cuda:0', 'cuda:1']);
    else await expect(namedDevices('all')).rejects.toMatchObject({ details: { device: 'all', reason } });
  });

  it.skipIf(hasDriver())('"all" are refused without a driver, which is named first', async () => {
    vi.stubEnv('PATH', '');
    await expect(namedDevices('all')).rejects.toThrow(
      /^devices "all" finds no GPU to run on: no NVIDIA driver is visible here/,
    );
  });
});
