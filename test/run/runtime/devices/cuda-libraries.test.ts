/** Libraries that are preloaded from a folder. libvips of sharp, which is on every Linux machine, stands in for CUDA. */
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { preloadLibraries } from '../../../../src/run/runtime/devices/cuda-libraries.js';
import { findMissing } from '../../../../src/run/runtime/devices/provider-library.js';
import { loadLibrary } from '../../../../src/run/runtime/devices/shared-library.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { makeLibrary } from '../../../support/library.js';

const scratch = scratchFolder();
const vips = projectPath('node_modules/@img/sharp-libvips-linux-x64/lib');
const binding = projectPath('node_modules/@img/sharp-linux-x64/lib');
const isHere = process.platform === 'linux' && existsSync(vips) && existsSync(binding);
const notHere = isHere ? '' : ' (NOT RUN: this is no Linux x64 with sharp’s libvips)';
const soname = isHere ? readdirSync(vips).find((name) => name.startsWith('libvips-cpp.so'))! : '';

describe('preloadLibraries', () => {
  it('refuses a folder that is missing, or holds nothing that is needed', () => {
    const library = join(scratch, 'provider.so');
    writeFileSync(library, makeLibrary({ needed: ['libcudart.so.99', 'libcudnn.so.9'] }));
    const refused = (message: RegExp): object =>
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringMatching(message) as string });
    expect(() => preloadLibraries(join(scratch, 'none'), library)).toThrow(refused(/a folder that exists/));
    expect(() => preloadLibraries(library, library)).toThrow(refused(/a folder that exists/));
    const empty = join(scratch, 'empty');
    mkdirSync(empty);
    expect(() => preloadLibraries(empty, library)).toThrow(refused(/libcudart\.so\.99, libcudnn\.so\.9/));
  });

  it('skips libraries that cannot be loaded, also if they need each other', () => {
    const folder = join(scratch, 'broken/nvidia/lib');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'liba.so.1'), makeLibrary({ needed: ['libb.so.1'] }));
    writeFileSync(join(folder, 'libb.so.1'), makeLibrary({ needed: ['liba.so.1'] }));
    const library = join(scratch, 'ring.so');
    writeFileSync(library, makeLibrary({ needed: ['liba.so.1'] }));
    expect(preloadLibraries(join(scratch, 'broken'), library)).toEqual(new Set());
  });

  it.runIf(isHere)(`makes a library found that the loader does not find${notHere}`, () => {
    // Away from its place, it no longer finds libvips beside it.
    const library = join(scratch, 'binding.so');
    const file = readdirSync(binding).find((name) => name.endsWith('.node'));
    cpSync(join(binding, file!), library);
    expect(findMissing(library)).toEqual([
      { name: soname, reason: expect.stringContaining('cannot open shared object file') as string },
    ]);
    expect(loadLibrary(library)).toContain(soname);
    const folder = join(scratch, 'nvidia');
    cpSync(vips, join(folder, 'image/lib'), { recursive: true });
    expect(preloadLibraries(folder, library)).toEqual(new Set([soname]));
    expect(findMissing(library)).toEqual([]);
  });
});
