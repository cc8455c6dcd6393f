/** The version of onnxruntime that a provider's file says. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  readProviderVersion,
  whyOtherProvider,
} from '../../../../src/run/runtime/devices/provider-version.js';
import { makeProvider } from '../../../support/cuda.js';
import { scratchFolder } from '../../../support/fixtures.js';

const path = join(scratchFolder(), 'libonnxruntime_providers_cuda.so');
const CHUNK = 4 << 20;

describe('readProviderVersion', () => {
  it.each([0, CHUNK - 20, CHUNK - 12, CHUNK - 7, CHUNK, 2 * CHUNK + 5])(
    'finds the version wherever it stands: %i',
    async (at) => {
      const other = Buffer.from('\x001.2\0 2.3.4 \x0012345.1.1\0libcublas.so.13\0');
      writeFileSync(path, Buffer.concat([Buffer.alloc(at, 'x'), other, Buffer.from('\x001.27.0\0'), other]));
      expect(await readProviderVersion(path)).toBe('1.27.0');
    },
  );

  it('knows files that do not say one', async () => {
    writeFileSync(path, Buffer.alloc(CHUNK + 1, 'x'));
    expect(await readProviderVersion(path)).toBeUndefined();
    expect(await readProviderVersion(join(path, 'none'))).toBeUndefined();
  });
});

describe('whyOtherProvider', () => {
  it('names both versions if they differ', async () => {
    writeFileSync(path, makeProvider('1.27.0'));
    expect(await whyOtherProvider(path, '1.27.0')).toBeUndefined();
    expect(await whyOtherProvider(path, '1.30.0')).toMatch(
      /libonnxruntime_providers_cuda\.so belongs to onnxruntime 1\.27\.0, and onnxruntime-node is 1\.30\.0; /,
    );
  });
});
