import { describe, expect, it } from 'vitest';
import {
  chooseWheel,
  describePlatform,
  fitsPlatform,
  normalizeProject,
  parseWheelName,
  readPlatform,
  type Platform,
} from '../../../src/hub/wheels/wheel-name.js';

const named = (filename: string) => ({ filename, name: parseWheelName(filename)! });

it('reads the parts of a name', () => {
  expect(parseWheelName('openvino-2026.4.1-22982-cp312-cp312-manylinux_2_28_x86_64.whl')).toEqual({
    project: 'openvino',
    version: '2026.4.1',
    build: 22_982,
    python: 'cp312',
    abi: 'cp312',
    platforms: ['manylinux_2_28_x86_64'],
  });
  expect(
    parseWheelName('nvidia_cublas.cu12-12.9.1.4-py3-none-manylinux_2_27_x86_64.manylinux2014_x86_64.whl'),
  ).toMatchObject({
    project: 'nvidia-cublas-cu12',
    build: 0,
    platforms: ['manylinux_2_27_x86_64', 'manylinux2014_x86_64'],
  });
  for (const other of ['openvino-2026.4.1.tar.gz', 'openvino-2026.4.1-cp312.whl', '../a-1-py3-none-any.whl'])
    expect(parseWheelName(other)).toBeUndefined();
  expect(normalizeProject('A__b.-C')).toBe('a-b-c');
});

const linux = (arch: string, glibc: string | null): Platform => ({
  system: 'linux',
  arch,
  glibc,
  kernel: '6.1.0',
});
const mac = (arch: string, kernel: string): Platform => ({ system: 'darwin', arch, glibc: null, kernel });
const windows = (arch: string): Platform => ({ system: 'win32', arch, glibc: null, kernel: '10.0.22631' });

describe('a platform tag', () => {
  it.each<[string, Platform, boolean]>([
    ['manylinux_2_28_x86_64', linux('x64', '2.36'), true],
    ['manylinux_2_28_x86_64', linux('x64', '2.28'), true],
    ['manylinux_2_28_x86_64', linux('x64', '2.27'), false],
    ['manylinux_2_5_x86_64', linux('x64', '2.36'), true],
    ['manylinux2014_x86_64', linux('x64', '2.17'), true],
    ['manylinux2014_x86_64', linux('x64', '2.12'), false],
    ['manylinux1_x86_64', linux('x64', '2.36'), true],
    ['manylinux_2_28_x86_64', linux('x64', '3.0'), true],
    ['manylinux_2_28_x86_64', linux('x64', null), false],
    ['musllinux_1_2_x86_64', linux('x64', null), false],
    ['linux_x86_64', linux('x64', '2.36'), false],
    ['manylinux_2_28_x86_64', linux('arm64', '2.36'), false],
    ['manylinux_2_35_aarch64', linux('arm64', '2.36'), true],
    ['manylinux_2_35_aarch64', linux('arm64', '2.31'), false],
    ['manylinux_2_28_x86_64', linux('ia32', '2.36'), false],
    ['macosx_11_0_arm64', mac('arm64', '20.6.0'), true],
    ['macosx_11_0_arm64', mac('arm64', '25.0.0'), true],
    ['macosx_15_0_arm64', mac('arm64', '23.6.0'), false],
    ['macosx_26_0_arm64', mac('arm64', '25.0.0'), true],
    ['macosx_11_0_arm64', mac('x64', '23.6.0'), false],
    ['macosx_10_9_x86_64', mac('x64', '23.6.0'), true],
    ['macosx_11_0_universal2', mac('x64', '23.6.0'), true],
    ['win_amd64', windows('x64'), true],
    ['win_amd64', windows('arm64'), false],
    ['win_arm64', windows('arm64'), true],
    ['win32', windows('ia32'), false],
    ['macosx_11_0_arm64', linux('arm64', '2.36'), false],
    ['manylinux_2_28_x86_64', { ...linux('x64', '2.36'), system: 'freebsd' }, false],
    ['any', linux('x64', '2.36'), false],
  ])('%s on %j: %s', (tag, platform, fits) => {
    expect(fitsPlatform(tag, platform)).toBe(fits);
  });
});

describe('chooseWheel', () => {
  const here = linux('x64', '2.36');
  const tag = 'manylinux_2_28_x86_64';

  it('takes the latest build, then the newest Python with the usual threads, in any order', () => {
    const best = `openvino-2026.4.1-22982-cp314-cp314-${tag}.whl`;
    const wheels = [
      `openvino-2026.4.1-22982-cp39-cp39-${tag}.whl`,
      best,
      `openvino-2026.4.1-22982-cp314-cp314t-${tag}.whl`,
      `openvino-2026.4.1-22982-cp315-cp315t-${tag}.whl`,
      `openvino-2026.4.1-1000-cp315-cp315-${tag}.whl`,
      'openvino-2026.4.1-22982-cp315-cp315-win_amd64.whl',
    ].map(named);
    expect(chooseWheel(wheels, here)?.filename).toBe(best);
    expect(chooseWheel(wheels.toReversed(), here)?.filename).toBe(best);
    expect(chooseWheel(wheels, linux('arm64', '2.36'))).toBeUndefined();
  });

  it('takes a wheel that suits any Python', () => {
    const filename = `nvidia_cublas_cu12-12.9.1.4-py3-none-${tag}.whl`;
    expect(chooseWheel([named(filename)], here)?.filename).toBe(filename);
  });
});

it('describes this platform', () => {
  const platform = readPlatform();
  expect(platform).toMatchObject({ system: process.platform, arch: process.arch });
  expect(describePlatform(platform)).toContain(`${process.platform} ${process.arch}`);
  expect(describePlatform(linux('x64', null))).toBe('linux x64, without glibc');
  expect(describePlatform(linux('arm64', '2.36'))).toBe('linux arm64, glibc 2.36');
  expect(describePlatform(mac('arm64', '25.0.0'))).toBe('darwin arm64');
});
