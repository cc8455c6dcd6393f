import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readStateDict } from '../../../../src/learn/parameters/dicts/read-state-dict.js';
import { makeZip, type ZippedFile } from '../../../support/archives.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { dictPickle, readAll, tensorOpcodes } from '../../../support/states.js';

const scratch = scratchFolder();
let count = 0;
function write(files: readonly ZippedFile[]): string {
  const path = join(scratch, `${count++}.pth`);
  writeFileSync(path, makeZip(files));
  return path;
}

const values = Float32Array.of(0, 1, 2, 3, 4, 5);
const storage = { name: 'a/data/0', bytes: Buffer.from(values.buffer) };
const pickle = {
  name: 'a/data.pkl',
  bytes: dictPickle([
    ['whole', tensorOpcodes({ elements: 6, dims: [2, 3], strides: [3, 1] })],
    ['turned', tensorOpcodes({ elements: 6, dims: [3, 2], strides: [1, 3] })],
    ['part', tensorOpcodes({ elements: 6, offset: 4, dims: [2], strides: [1] })],
    ['one', tensorOpcodes({ elements: 6, offset: 5, dims: [], strides: [] })],
  ]),
};

describe('a zip of torch.save', () => {
  it('has tensors that are views of one storage', async () => {
    expect(await readAll(await readStateDict(write([pickle, storage])))).toEqual([
      ['whole', { dtype: 'float32', dims: [2, 3], data: values }],
      ['turned', { dtype: 'float32', dims: [3, 2], data: Float32Array.of(0, 3, 1, 4, 2, 5) }],
      ['part', { dtype: 'float32', dims: [2], data: Float32Array.of(4, 5) }],
      ['one', { dtype: 'float32', dims: [], data: Float32Array.of(5) }],
    ]);
  });

  it('has tensors of newer types, whose storages have none', async () => {
    const unsigned = dictPickle([
      ['plain', tensorOpcodes({ elements: 24, dims: [12], strides: [1], dtype: 'uint16' })],
      ['turned', tensorOpcodes({ elements: 24, offset: 2, dims: [2, 3], strides: [1, 2], dtype: 'uint16' })],
      ['float8', tensorOpcodes({ elements: 24, offset: 20, dims: [4], strides: [1], dtype: 'float8_e5m2' })],
    ]);
    const state = await readStateDict(write([{ ...pickle, bytes: unsigned }, storage]));
    const words = new Uint16Array(values.buffer);
    expect(await state.get('plain')!.read()).toEqual({ dtype: 'uint16', dims: [12], data: words });
    const turned = Uint16Array.of(words[2]!, words[4]!, words[6]!, words[3]!, words[5]!, words[7]!);
    expect(await state.get('turned')!.read()).toEqual({ dtype: 'uint16', dims: [2, 3], data: turned });
    expect(state.get('float8')).toMatchObject({ dtype: 'float8_e5m2', dims: [4] });
    expect(await state.get('float8')!.bytes()).toEqual(new Uint8Array(values.buffer, 20));
  });

  it.each<[string, readonly ZippedFile[], RegExp]>([
    [
      'big-endian numbers',
      [pickle, storage, { name: 'a/byteorder', bytes: Buffer.from('big') }],
      /big-endian/,
    ],
    ['two pickles', [pickle, storage, { ...pickle, name: 'b/data.pkl' }], /2 files data\.pkl/],
    ['an entry twice', [pickle, storage, storage], /"a\/data\/0" twice/],
    [
      'a storage that is too short',
      [pickle, { ...storage, bytes: Buffer.alloc(20) }],
      /20 bytes instead of 24/,
    ],
    [
      'a storage that is too long',
      [pickle, { ...storage, bytes: Buffer.alloc(28) }],
      /28 bytes instead of 24/,
    ],
    ['a compressed storage', [pickle, { ...storage, isDeflated: true }], /data\/0 is compressed/],
    ['an encrypted storage', [pickle, { ...storage, isEncrypted: true }], /it is encrypted/],
    [
      'a pickle that is too long',
      [{ ...pickle, bytes: Buffer.alloc(2 ** 24 + 1) }],
      /at most 16777216 are read/,
    ],
    ['a wrong checksum', [{ ...pickle, statedCrc: 1 }, storage], /its checksum is wrong/],
  ])('is refused for %s', async (_what, files, reason) => {
    await expect(readStateDict(write(files))).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringMatching(reason) as string,
    });
  });
});
