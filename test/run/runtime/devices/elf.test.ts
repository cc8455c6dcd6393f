/** Shared libraries read without loading them: bytes made by hand, real ones, and hostile ones. */
import { createRequire } from 'node:module';
import { readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readNeeded } from '../../../../src/run/runtime/devices/elf.js';
import { makeLibrary } from '../../../support/library.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();

function read(bytes: Uint8Array): readonly string[] {
  const path = join(scratch, 'library.so');
  writeFileSync(path, bytes);
  return readNeeded(path);
}

describe('readNeeded', () => {
  it('reads needed libraries', () => {
    const bytes = makeLibrary({ needed: ['libcudart.so.13', 'libcudnn.so.9'], soname: 'libx.so.1' });
    expect(read(bytes)).toEqual(['libcudart.so.13', 'libcudnn.so.9']);
    expect(read(makeLibrary({ needed: [] }))).toEqual([]);
  });

  it('gives nothing for what is no such library', () => {
    const good = makeLibrary({ needed: ['libc.so.6'] });
    const changed = (at: number, byte: number): Uint8Array => {
      const copy = Uint8Array.from(good);
      copy[at] = byte;
      return copy;
    };
    expect(readNeeded(join(scratch, 'not-there'))).toEqual([]);
    expect(readNeeded(scratch)).toEqual([]);
    for (const bytes of [
      new Uint8Array(0),
      new TextEncoder().encode('GROUP ( /lib/libc.so.6 )'.padEnd(200)),
      changed(0, 0),
      changed(4, 1),
      changed(5, 2),
      changed(54, 32),
      changed(56, 0),
      good.subarray(0, good.length - 4),
    ])
      expect(read(bytes)).toEqual([]);
  });

  it('never throws, whatever the bytes', () => {
    const good = makeLibrary({ needed: ['liba.so.1', 'libb.so.2'], soname: 'libc.so.3' });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 8 }),
        fc.nat(good.length),
        (changes, length) => {
          const bytes = Uint8Array.from(good.subarray(0, length));
          for (const [at, byte] of changes) if (at < length) bytes[at] = byte;
          expect(read(bytes).length).toBeLessThanOrEqual(1024);
        },
      ),
      { numRuns: 300 },
    );
  });

  it.runIf(process.platform === 'linux' && process.arch === 'x64')('reads onnxruntime’s own library', () => {
    const root = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'));
    const folder = join(root, 'bin/napi-v6/linux/x64');
    const file = readdirSync(folder).find((name) => name.startsWith('libonnxruntime.so'))!;
    const needed = readNeeded(join(folder, file));
    expect(needed).toEqual(expect.arrayContaining(['libc.so.6', 'libstdc++.so.6']));
  });
});
