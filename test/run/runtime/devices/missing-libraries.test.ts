/** CUDA and cuDNN in a folder that lacks some, or has other versions: what is missing, and what was found instead. */
import { writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { checkHolds, whyIncomplete } from '../../../../src/run/runtime/devices/cuda-libraries.js';
import { lacking } from '../../../../src/run/runtime/devices/device-failure.js';
import { describeMissing } from '../../../../src/run/runtime/devices/cuda-setup.js';
import { findMissing } from '../../../../src/run/runtime/devices/provider-library.js';
import { makeProvider, playFolder } from '../../../support/cuda.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();
const provider = join(scratch, 'provider.so');
writeFileSync(provider, makeProvider('1.30.0'));
afterEach(() => void vi.unstubAllEnvs());

const CUDA_13 = ['libcublasLt.so.13', 'libcublas.so.13', 'libcurand.so.10', 'libcudart.so.13'];
const play = (name: string, libraries: readonly string[]): string =>
  playFolder(join(scratch, name), libraries);

describe('whyIncomplete', () => {
  it('wants CUDA and cuDNN, and neither the system’s libraries nor the driver’s', () => {
    const whole = play('whole', [...CUDA_13, 'libcudnn.so.9']);
    expect(whyIncomplete(whole, provider)).toBeUndefined();
  });

  it.each<[string, readonly string[], string]>([
    ['one missing', ['libcudnn.so.9', ...CUDA_13.slice(1)], ' does not have libcublasLt.so.13'],
    ['cuDNN 8', ['libcudnn.so.8', ...CUDA_13], ' does not have libcudnn.so.9 (it has libcudnn.so.8)'],
    [
      'CUDA 12',
      ['libcublasLt.so.12', 'libcublas.so.12', 'libcurand.so.10', 'libcudart.so.12', 'libcudnn.so.9'],
      ' does not have libcublasLt.so.13, libcublas.so.13, libcudart.so.13 (it has libcublasLt.so.12, libcublas.so.12, libcudart.so.12)',
    ],
  ])('says what is missing, and which version is there: %s', (name, libraries, reason) => {
    const folder = play(name, libraries);
    expect(whyIncomplete(folder, provider)).toBe(`${folder}${reason}`);
  });
});

describe('checkHolds', () => {
  it('refuses a folder of another CUDA, and names both', () => {
    const folder = play('twelve', ['libcublas.so.12', 'libcudart.so.12.4']);
    expect(() => checkHolds(folder, provider)).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.stringMatching(
          /a folder with some of libcublasLt\.so\.13, libcublas\.so\.13, libcurand\.so\.10, libcudart\.so\.13, not of libcublas\.so\.12, libcudart\.so\.12\.4, got ".*twelve"/,
        ) as string,
      }),
    );
  });
});

describe('describeMissing', () => {
  it('finds other versions in the folder and on LD_LIBRARY_PATH', () => {
    const onPath = play('path', ['libcudart.so.12', 'libother.so.1']);
    const inFolder = play('folder', ['libcublas.so.12']);
    vi.stubEnv('LD_LIBRARY_PATH', [join(scratch, 'nowhere'), onPath].join(delimiter));
    const missing = ['libcudart.so.13', 'libcublas.so.13', 'libcurand.so.10'].map((name) => ({
      name,
      reason: `${name}: cannot open shared object file`,
    }));
    const files = new Map([['libcublas.so.12', join(inFolder, 'libcublas.so.12')]]);
    const described = describeMissing(missing, files);
    expect(described[0]!.found).toContain(join(onPath, 'libcudart.so.12'));
    expect(described[1]!.found).toContain(join(inFolder, 'libcublas.so.12'));
    expect(lacking(described)).toContain(`(found: ${described[0]!.found!.join(', ')})`);
  });

  it('leaves out what a folder has, and what the caller does not ask for', () => {
    const has = new Set([...CUDA_13, 'libcuda.so.1']);
    expect(findMissing(provider, (name) => has.has(name))).toEqual([]);
  });
});

describe('lacking', () => {
  const library = (name: string): { name: string; reason: string } => ({ name, reason: 'not there' });

  it('tells the driver from the libraries that can be installed', () => {
    const driver = lacking([library('libcuda.so.1')]);
    expect(driver).toMatch(
      /^libcuda\.so\.1, which comes with the NVIDIA driver, is not here; install the driver/,
    );
    expect(driver).not.toMatch(/cuDNN|LD_LIBRARY_PATH/);
    const both = lacking([library('libcuda.so.1'), library('libcurand.so.10')]);
    expect(both).toMatch(/^the CUDA provider needs libcurand\.so\.10, which .*; libcuda\.so\.1, which comes/);
  });
});
