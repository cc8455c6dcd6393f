/** The loader's reasons. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { loadLibrary, missingName } from '../../../../src/run/runtime/devices/shared-library.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();

it('names the library that is missing', () => {
  expect(missingName('libcublasLt.so.13: cannot open shared object file: No such file or directory')).toBe(
    'libcublasLt.so.13',
  );
  expect(missingName('/x/liba.so: invalid ELF header')).toBeUndefined();
});

it('says why a damaged library cannot be loaded', () => {
  const damaged = join(scratch, 'damaged.so');
  writeFileSync(damaged, 'no library');
  expect(loadLibrary(damaged)).toBeTypeOf('string');
});
