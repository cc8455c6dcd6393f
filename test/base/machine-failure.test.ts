import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { TapirError } from '../../src/base/errors.js';
import { checkMachine, machineFailure } from '../../src/base/machine-failure.js';

describe('machineFailure', () => {
  it.each([
    [
      'EMFILE',
      Object.assign(new Error('EMFILE: too many open files, open "a"'), { code: 'EMFILE' }),
      'ulimit -n',
    ],
    ['ENFILE', Object.assign(new Error('file table overflow'), { code: 'ENFILE' }), 'fs.file-max'],
    ['EMFILE', new Error('Worker initialization failure: EMFILE'), 'ulimit -n'],
  ] as const)('recognises %s, and says what to do', (code, cause, advice) => {
    const error = machineFailure(cause);
    expect(error).toMatchObject({ code: 'TOO_MANY_OPEN_FILES', details: { code }, cause });
    expect(error?.message).toContain(advice);
    expect(() => checkMachine(cause)).toThrow(advice);
  });

  // Each was seen, under a limit of memory.
  it.each([
    'vips_image_write_to_memory: out of memory -- size == 228MB',
    'Input buffer has corrupt header: vips_tracked: out of memory -- size == 76MB',
    'VipsJpeg: Insufficient memory (case 4)',
    'heif: Invalid input: Unspecified: Memory allocation error (2.0)',
    'Array buffer allocation failed',
    'WebAssembly.instantiate(): Out of memory: Cannot allocate Wasm memory for new instance',
    'ENOMEM: not enough memory, read',
  ])('recognises memory that ran out: %s', (said) => {
    const error = machineFailure(new Error(said), { doing: 'decoding a.png' });
    expect(error).toMatchObject({
      code: 'OUT_OF_MEMORY',
      details: { reason: 'memory ran out while decoding a.png' },
      message: expect.stringContaining('option "decodeThreads"'),
    });
  });

  it('recognises a full folder of temporary files, and names it', () => {
    const said = `${tmpdir()}/tapir-temporary-AbC123/picture.tif: write error\nsystem error: No space left on device\nvips2tiff: TIFF write tile failed`;
    const error = machineFailure(new Error(said));
    expect(error).toMatchObject({ code: 'OUTPUT_UNWRITABLE', details: { path: tmpdir() } });
    expect(error?.message).toMatch(/": No space left on device \(\d+ bytes are free\); .*TMPDIR/);
  });

  it('leaves other errors alone, whatever the file is called', () => {
    const typed = new TapirError('MODEL_CHANGED', 'EMFILE', { details: { source: 'a' } });
    const missing = { code: 'ENOENT', syscall: 'open' };
    const others = [
      new Error('ENOENT'),
      new Error('xEMFILEx'),
      new Error('vipspng: libpng read error'),
      new Error('heif: Memory allocation error: Security limit exceeded: Image size exceeds the maximum'),
      Object.assign(new Error("ENOENT: no such file or directory, open 'EMFILE out of memory.png'"), missing),
      typed,
      'EMFILE',
      null,
      undefined,
    ];
    for (const error of others) {
      expect(machineFailure(error)).toBeUndefined();
      checkMachine(error);
    }
    const label = '/x/out of memory.png';
    expect(machineFailure(new Error(`Input file is missing: ${label}`), { label })).toBeUndefined();
  });
});
