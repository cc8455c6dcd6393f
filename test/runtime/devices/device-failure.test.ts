/** Why a device cannot be used: onnxruntime's texts in the user's terms, each with the next step. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { prepareCuda } from '../../../src/runtime/devices/cuda-setup.js';
import { readDevice } from '../../../src/runtime/device.js';
import {
  explainCuda,
  explainWebGpu,
  isDeviceFailure,
  lacking,
  outOfRange,
  refused,
  unavailable,
} from '../../../src/runtime/devices/device-failure.js';
import {
  findProvider,
  INSTALL_COMMAND,
  whyNoProvider,
} from '../../../src/runtime/devices/provider-library.js';
import { scratchFolder } from '../../support/fixtures.js';
import { answering, playNvidiaSmi, QUERY } from '../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => vi.unstubAllEnvs());

const cuda5 = readDevice('device', 'cuda:5');
const nothing = { visible: undefined, driverVersion: undefined, missing: [] } as const;

describe('explainCuda', () => {
  it.each([
    [
      'CUDA failure 101: invalid device ordinal ; GPU=5',
      { visible: 3 },
      /no GPU 5: 3 GPUs are visible, cuda:0 to cuda:2/,
    ],
    ['CUDA failure 101: invalid device ordinal', { visible: 1 }, /one GPU is visible, cuda:0/],
    ['CUDA error cudaErrorInvalidDevice:invalid device ordinal', {}, /there are fewer GPUs/],
    [
      'CUDA failure 35: CUDA driver version is insufficient',
      { driverVersion: '450.80.02' },
      /driver \(450\.80\.02\) is too old.*install a newer/,
    ],
    ['CUDA failure 100: no CUDA-capable device is detected', {}, /CUDA sees no GPU.*CUDA_VISIBLE_DEVICES/],
    ['CUDA failure 2: out of memory', {}, /too little free memory/],
    ['CUDA failure 803: unsupported display driver', {}, /different versions; restart/],
    ['CUDA failure 999: unknown error', {}, /^CUDA failure 999: unknown error$/],
    [
      'OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library',
      {},
      /load by themselves/,
    ],
  ])('%s', (text, known, expected) => {
    expect(explainCuda(cuda5, text, { ...nothing, ...known })).toMatch(expected);
  });

  it('names the libraries that the loader lacks, whatever their version', () => {
    const missing = [
      { name: 'libcublasLt.so.14', reason: 'libcublasLt.so.14: cannot open shared object file' },
      { name: 'libcudnn.so.10', reason: 'libcudnn.so.10: cannot open shared object file' },
    ];
    const text = explainCuda(cuda5, 'Failed to load shared library', { ...nothing, missing });
    expect(text).toMatch(
      /needs libcublasLt\.so\.14, libcudnn\.so\.10, .*LD_LIBRARY_PATH.*cudaLibraries, --cuda-libs/,
    );
    expect(unavailable(cuda5, text, { missing })).toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringContaining('"tapir doctor" tells more') as string,
      details: { device: 'cuda:5', missingLibraries: ['libcublasLt.so.14', 'libcudnn.so.10'] },
    });
    expect(lacking([{ name: 'libcuda.so.1', reason: '' }])).toMatch(/comes with the NVIDIA driver/);
  });
});

describe('other failures', () => {
  it('of WebGPU say what it needs', () => {
    expect(explainWebGpu('x was false. Failed to get a WebGPU adapter: No supported adapters')).toMatch(
      /^there is no WebGPU adapter \(No supported adapters\); it needs a GPU driver/,
    );
    expect(explainWebGpu('WebGPU: lost')).toBe('WebGPU: lost');
  });

  it('are the model’s, unless the text is about the device', () => {
    expect(isDeviceFailure(cuda5, new Error('CUDA failure 2: out of memory'))).toBe(true);
    expect(isDeviceFailure(cuda5, new Error('unsupported IR version'))).toBe(false);
    expect(isDeviceFailure(readDevice('device', 'cpu'), new Error('WebGPU'))).toBe(false);
    expect(refused(cuda5, new Error('no such\n operator'))).toMatchObject({
      code: 'SESSION_FAILED',
      message: 'ONNX Runtime refuses the model on cuda:5: no such operator',
    });
  });
});

describe('prepareCuda', () => {
  it('refuses an index before anything is loaded, if nvidia-smi tells', async () => {
    vi.stubEnv('PATH', playNvidiaSmi(join(scratch, 'smi'), answering(QUERY)));
    vi.stubEnv('CUDA_VISIBLE_DEVICES', '2,1');
    await expect(prepareCuda(cuda5, undefined)).rejects.toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringMatching(
        /^cuda:5 cannot be used: there is no GPU 5: 2 GPUs are visible/,
      ) as string,
    });
    expect(outOfRange(cuda5, 0)).toContain('no GPU is visible');
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

  it('knows systems without a provider, and an installation without onnxruntime-node', () => {
    expect(whyNoProvider({ folder: '', files: [] })).toMatch(/has no CUDA provider for/);
    expect(whyNoProvider({ folder: '', files: [{ name: 'a.so', bytes: 1 }] })).toBeUndefined();
  });
});
