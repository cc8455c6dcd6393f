/** Messages about devices that cannot be used, each with the next step. */
import { describe, expect, it } from 'vitest';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import {
  explainCuda,
  explainWebGpu,
  isDeviceFailure,
  lacking,
  refused,
  runFailed,
  unavailable,
} from '../../../../src/run/runtime/devices/device-failure.js';

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
    ['CUDA failure 101: invalid device ordinal', { visible: 0 }, /no GPU is visible/],
    ['CUDA error cudaErrorInvalidDevice:invalid device ordinal', {}, /there are fewer GPUs/],
    [
      'CUDA failure 35: CUDA driver version is insufficient',
      { driverVersion: '450.80.02' },
      /driver \(450\.80\.02\) is too old.*install a newer/,
    ],
    ['CUDA failure 100: no CUDA-capable device is detected', {}, /CUDA sees no GPU.*CUDA_VISIBLE_DEVICES/],
    ['CUDA failure 2: out of memory', {}, /too little free memory/],
    [
      'bfc_arena.cc:360 Failed to allocate memory for requested buffer of size 9437184',
      {},
      /too little free/,
    ],
    ['CUDA failure 803: unsupported display driver', {}, /different versions; restart/],
    ['CUDA failure 999: unknown error', {}, /^CUDA failure 999: unknown error$/],
    ['OrtSessionOptionsAppendExecutionProvider_Cuda: Failed to load shared library', {}, /can be loaded\)/],
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
      /needs libcublasLt\.so\.14, libcudnn\.so\.10, .*LD_LIBRARY_PATH.*option "cudaLibraries"/,
    );
    expect(unavailable(cuda5, text, { missing })).toMatchObject({
      code: 'DEVICE_UNAVAILABLE',
      message: expect.stringContaining('. Run "tapir doctor" for details') as string,
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

  it('says what to do where WebGPU has no float16', () => {
    const error = new Error(
      'shader_helper.cc:416 Program Transpose requires f16 but the device does not support it.',
    );
    const webGpu = readDevice('device', 'webgpu');
    for (const failure of [refused(webGpu, error), runFailed(webGpu, error)])
      expect(failure.message).toMatch(/no float16 \(shader-f16\): use a model in float32$/);
  });

  it('are the model’s, unless the text is about the device', () => {
    expect(isDeviceFailure(cuda5, new Error('CUDA failure 2: out of memory'))).toBe(true);
    expect(isDeviceFailure(cuda5, new Error('Failed to allocate memory for requested buffer'))).toBe(true);
    expect(isDeviceFailure(cuda5, new Error('unsupported IR version'))).toBe(false);
    expect(isDeviceFailure(readDevice('device', 'cpu'), new Error('WebGPU'))).toBe(false);
    expect(refused(cuda5, new Error('no such\n operator'))).toMatchObject({
      code: 'SESSION_FAILED',
      message: 'ONNX Runtime refuses the model on cuda:5: no such operator',
    });
  });

  it('of a run for lack of memory say what to do', () => {
    const full = new Error('Failed to allocate memory for requested buffer of size 822083584');
    expect(runFailed(cuda5, full)).toMatchObject({
      code: 'RUN_FAILED',
      message: expect.stringMatching(
        /cuda:5: its memory is full; use smaller batches, or end other programs/,
      ) as string,
      details: { device: 'cuda:5', reason: full.message },
    });
    const cpu = readDevice('device', 'cpu');
    expect(runFailed(cpu, full).message).toMatch(/use smaller batches: Failed/);
    expect(runFailed(cpu, new Error('bad node')).message).toBe('the model failed on cpu: bad node');
  });
});
