/** Checks before a CUDA session opens: each problem with the next step. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import { cudaFailure, prepareCuda } from '../../../../src/run/runtime/devices/cuda-setup.js';
import {
  findProvider,
  INSTALL_COMMAND,
  whyNoProvider,
} from '../../../../src/run/runtime/devices/provider-library.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { answering, playNvidiaSmi, QUERY } from '../../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => void vi.unstubAllEnvs());

const cuda5 = readDevice('device', 'cuda:5');
/** Lets the process see two GPUs. */
function playTwo(): void {
  vi.stubEnv('PATH', playNvidiaSmi(join(scratch, 'smi'), answering(QUERY)));
  vi.stubEnv('CUDA_VISIBLE_DEVICES', '2,1');
}

describe('prepareCuda', () => {
  it('refuses an index before anything is loaded, if nvidia-smi tells', async () => {
    playTwo();
    await expect(prepareCuda(cuda5, undefined)).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringMatching(
        /^cuda:5 cannot be used: there is no GPU 5: 2 GPUs are visible/,
      ) as string,
    });
  });

  it('refuses a folder of libraries that is missing', async () => {
    await expect(prepareCuda(cuda5, join(scratch, 'none'))).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      details: { option: 'cudaLibraries' },
    });
  });

  // Where the provider is installed there is nothing to be told.
  it.skipIf(whyNoProvider() === undefined)('says how to get what is missing', async () => {
    mkdirSync(join(scratch, 'libs'));
    const isOffered = (findProvider()?.files.length ?? 0) > 0;
    await expect(prepareCuda(readDevice('device', 'cuda'), join(scratch, 'libs'))).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      details: {
        reason: expect.stringContaining(isOffered ? INSTALL_COMMAND : 'has no CUDA provider') as string,
      },
    });
  });
});

describe('cudaFailure', () => {
  it('explains a failure with what the machine shows', async () => {
    playTwo();
    const cause = new Error('CUDA failure 101: invalid device ordinal');
    expect(await cudaFailure(cuda5, cause)).toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringContaining('there is no GPU 5: 2 GPUs are visible, cuda:0 to cuda:1') as string,
      cause,
    });
    expect(
      await cudaFailure(cuda5, new Error('CUDA failure 35: driver version is insufficient')),
    ).toMatchObject({
      message: expect.stringContaining('the NVIDIA driver (580.65.06) is too old') as string,
    });
  });
});
