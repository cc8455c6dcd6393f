/** The CUDA provider's files, and libraries that cannot be loaded. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findMissing, whyNoProvider } from '../../../../src/run/runtime/devices/provider-library.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { makeLibrary } from '../../../support/library.js';

const scratch = scratchFolder();

describe('whyNoProvider', () => {
  it('knows systems without a provider, and an installation without onnxruntime-node', () => {
    expect(whyNoProvider({ folder: '', files: [], isInstalled: false })).toMatch(/has no CUDA provider for/);
    expect(
      whyNoProvider({ folder: '', files: [{ name: 'a.so', bytes: 1 }], isInstalled: false }),
    ).toBeUndefined();
  });
});

describe('findMissing', () => {
  it('names libraries that are not there, but not those beside the library', () => {
    const library = join(scratch, 'needy.so');
    writeFileSync(library, makeLibrary({ needed: ['libtapir-none.so.7', 'needy.so'] }));
    expect(findMissing(library).map(({ name }) => name)).toEqual(['libtapir-none.so.7']);
    expect(findMissing(join(scratch, 'none.so'))).toEqual([]);
  });
});
