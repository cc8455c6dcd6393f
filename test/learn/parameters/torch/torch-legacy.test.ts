import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { SharedFile } from '../../../../src/base/files/shared-file.js';
import { readStateDict } from '../../../../src/learn/parameters/dicts/read-state-dict.js';
import { makeTar } from '../../../support/archives.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { dictPickle, legacyPickles, legacyStorage, readAll, tensorOpcodes } from '../../../support/states.js';

const scratch = scratchFolder();
let count = 0;
function write(...parts: readonly Uint8Array[]): string {
  const path = join(scratch, `${count++}.pth`);
  writeFileSync(path, Buffer.concat(parts));
  return path;
}

const values = Float32Array.of(0, 1, 2, 3, 4, 5);
const whole = { elements: 6, dims: [2, 3], strides: [3, 1] };
const object = dictPickle([
  ['whole', tensorOpcodes(whole)],
  ['turned', tensorOpcodes({ ...whole, dims: [3, 2], strides: [1, 3] })],
  [
    'bytes',
    tensorOpcodes({ elements: 3, dims: [2], strides: [1], offset: 1, type: 'ByteStorage', key: 'b' }),
  ],
  ['viewed', tensorOpcodes({ elements: 6, first: 3, offset: 1, dims: [2], strides: [1] })],
  ['float8', tensorOpcodes({ elements: 2, dims: [2], strides: [1], dtype: 'float8_e4m3fn', key: 'f' })],
]);
const pickles = legacyPickles(object, ['b', '0', 'f']);
const bytes = legacyStorage(3, Uint8Array.of(7, 8, 9));
const floats = legacyStorage(6, Buffer.from(values.buffer));
const float8 = legacyStorage(2, Uint8Array.of(0x38, 0xb8));

describe('a file of torch.save before 1.6', () => {
  it('has tensors that are views of the storages after its pickles', async () => {
    const state = await readStateDict(write(pickles, bytes, floats, float8));
    expect(await state.get('float8')!.bytes()).toEqual(Uint8Array.of(0x38, 0xb8));
    const others = new Map([...state].filter(([key]) => key !== 'float8'));
    expect(await readAll(others)).toEqual([
      ['whole', { dtype: 'float32', dims: [2, 3], data: values }],
      ['turned', { dtype: 'float32', dims: [3, 2], data: Float32Array.of(0, 3, 1, 4, 2, 5) }],
      ['bytes', { dtype: 'uint8', dims: [2], data: Uint8Array.of(8, 9) }],
      ['viewed', { dtype: 'float32', dims: [2], data: Float32Array.of(4, 5) }],
    ]);
  });

  it('may have pickles that are longer than its first read', async () => {
    const many = Array.from({ length: 3000 }, (_, i) => [`layer${i}.weight`, tensorOpcodes(whole)] as const);
    const state = await readStateDict(write(legacyPickles(dictPickle(many), ['0']), floats));
    expect(state.size).toBe(3000);
    expect((await state.get('layer2999.weight')!.read()).data).toEqual(values);
  });

  it('is listed without its storages, also at 1 GB', async () => {
    const large = tensorOpcodes({ elements: 2 ** 28, dims: [2 ** 28], strides: [1] });
    const path = write(
      legacyPickles(dictPickle([['w', large]]), ['0']),
      legacyStorage(2 ** 28, new Uint8Array(0)),
    );
    const start = legacyPickles(dictPickle([['w', large]]), ['0']).length + 8;
    truncateSync(path, start + 2 ** 30);
    const read = vi.spyOn(SharedFile.prototype, 'read');
    const state = await readStateDict(path);
    const asked = read.mock.calls.reduce((sum, [, length]) => sum + length, 0);
    read.mockRestore();
    expect(state.get('w')!.dims).toEqual([2 ** 28]);
    expect(asked).toBeLessThan(100_000);
  });

  it.each<[string, readonly Uint8Array[], RegExp]>([
    ['another pickle', [Buffer.from('\x80\x02K\x01.', 'latin1')], /pickle that torch\.save did not write/],
    [
      'another version',
      [pickles.subarray(0, 15), Buffer.from('\x80\x02K\x01.', 'latin1')],
      /version is not 1001/,
    ],
    ['pickles that end early', [pickles.subarray(0, -1)], /ends early/],
    ['no list of storages', [pickles.subarray(0, 25), object, Buffer.from('N.')], /list no storages/],
    ['a key that no tensor has', [legacyPickles(object, ['b', 'c']), bytes], /list of storages is damaged/],
    ['a key twice', [legacyPickles(object, ['b', 'b']), bytes, bytes], /list of storages is damaged/],
    ['a storage without a key', [legacyPickles(object, ['b', '0']), bytes, floats], /storage f is missing/],
    [
      'a storage that is cut off',
      [pickles, bytes, floats, float8.subarray(0, -1)],
      /before its storage f does/,
    ],
    ['storages in another order', [pickles, floats, bytes, float8], /storage b has 6 elements instead of 3/],
    ['more bytes', [pickles, bytes, floats, float8, bytes], /last 11 bytes belong to no storage/],
    ['pickles without end', [pickles.subarray(0, -1), Buffer.alloc(2 ** 24, ' 0')], /opcode/],
    [
      'a text of 1 GB',
      [pickles.subarray(0, -2), Buffer.from('X\0\0\0\x40'), Buffer.alloc(2 ** 24)],
      /more than/,
    ],
    ['a function', [legacyPickles(Buffer.from('cposix\nsystem\n)R.'), [])], /refers to posix\.system/],
    ['a list', [legacyPickles(Buffer.from('].'), [])], /holds a list/],
  ])('is refused for %s', async (_what, parts, reason) => {
    await expect(readStateDict(write(...parts))).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringMatching(reason) as string,
    });
  });

  it('is not the tar of even older ones, which is refused', async () => {
    const tar = await makeTar([{ name: 'sys_info', bytes: Buffer.from('x') }]);
    await expect(readStateDict(write(tar))).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringMatching(/tar, the oldest format of torch/) as string,
    });
  });
});
