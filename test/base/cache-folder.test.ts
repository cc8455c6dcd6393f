import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { defaultCacheFolder } from '../../src/base/cache-folder.js';

const { platform } = process;
function pretendPlatform(name: NodeJS.Platform): void {
  Object.defineProperty(process, 'platform', { value: name });
}
afterEach(() => {
  pretendPlatform(platform);
  vi.unstubAllEnvs();
});

it('follows the XDG specification on Linux, which ignores relative paths', () => {
  pretendPlatform('linux');
  const standard = join(homedir(), '.cache/onnx-tapir');
  for (const [stated, expected] of [
    ['/var/cache/me', '/var/cache/me/onnx-tapir'],
    ['relative', standard],
    ['', standard],
    [undefined, standard],
  ] as const) {
    vi.stubEnv('XDG_CACHE_HOME', stated);
    expect(defaultCacheFolder()).toBe(expected);
  }
});

it('is where macOS and Windows keep caches', () => {
  vi.stubEnv('XDG_CACHE_HOME', '/var/cache/me');
  pretendPlatform('darwin');
  expect(defaultCacheFolder()).toBe(join(homedir(), 'Library/Caches/onnx-tapir'));
  pretendPlatform('win32');
  vi.stubEnv('LOCALAPPDATA', '/local');
  expect(defaultCacheFolder()).toBe('/local/onnx-tapir');
  vi.stubEnv('LOCALAPPDATA', undefined);
  expect(defaultCacheFolder()).toBe(join(homedir(), 'AppData/Local/onnx-tapir'));
});
