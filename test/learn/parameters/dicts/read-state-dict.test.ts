import { createHash } from 'node:crypto';
import {
  copyFileSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { SharedFile } from '../../../../src/base/files/shared-file.js';
import { readStateDict } from '../../../../src/learn/parameters/dicts/read-state-dict.js';
import { bytesOf } from '../../../../src/onnx/tensor/bits.js';
import { encodeFloat16 } from '../../../../src/onnx/tensor/float16.js';
import { makeZip } from '../../../support/archives.js';
import { fixturePath, scratchFolder } from '../../../support/fixtures.js';
import { readAll, safetensorsBytes, stateFixture } from '../../../support/states.js';

const scratch = scratchFolder();
const fixture = (name: string): string => stateFixture(name, scratch);
const facts = JSON.parse(readFileSync(fixturePath('parameters/formats.json'), 'utf8')) as {
  readonly forms: readonly { readonly file: string; readonly values: string; readonly prefix?: string }[];
  readonly bad: readonly { readonly file: string; readonly what: string }[];
  readonly keys: readonly {
    readonly key: string;
    readonly shape: number[];
    readonly dtype: string;
    readonly sha: string;
  }[];
};

const shaOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

function write(name: string, bytes: Uint8Array): string {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
}

describe('readStateDict', () => {
  const exact = facts.forms.filter(({ values, file }) => values === 'B' && !file.includes('double'));
  it.each(exact)('reads the values, dims and dtypes of $file', async ({ file, prefix }) => {
    const state = await readStateDict(fixture(file));
    const start = prefix ?? (file.includes('.module.') ? 'module.' : '');
    const expected = facts.keys.filter(
      ({ key }) => !file.includes('no_counters') || !key.endsWith('_tracked'),
    );
    expect(new Set(state.keys())).toEqual(new Set(expected.map(({ key }) => start + key)));
    for (const { key, shape, dtype, sha } of expected) {
      const entry = state.get(start + key)!;
      expect([entry.dtype, entry.dims], key).toEqual([dtype, shape]);
      const tensor = await entry.read();
      expect([tensor.dtype, tensor.dims, shaOf(bytesOf(tensor.data))], key).toEqual([dtype, shape, sha]);
    }
  });

  it('keeps the order of a pickle', async () => {
    const state = await readStateDict(fixture('formats/dict.pth'));
    expect([...state.keys()]).toEqual(facts.keys.map(({ key }) => key));
  });

  it('reads float64, float16 and bfloat16, the last as float32', async () => {
    const exactly = await readStateDict(fixture('formats/metadata.safetensors'));
    for (const [file, dtype] of [
      ['double.pth', 'float64'],
      ['half.pth', 'float16'],
      ['half.safetensors', 'float16'],
      ['bfloat16.safetensors', 'bfloat16'],
    ] as const) {
      const state = await readStateDict(fixture(`formats/${file}`));
      expect(state.get('conv1.weight')!.dtype, file).toBe(dtype);
      for (const [key, tensor] of await readAll(state)) {
        const { data } = await exactly.get(key)!.read();
        if (!(data instanceof Float32Array)) expect(tensor.data).toEqual(data);
        else if (dtype === 'float64')
          expect(Float32Array.from(tensor.data as Float64Array), key).toEqual(data);
        else if (dtype === 'float16') expect(tensor.data, key).toEqual(encodeFloat16(data));
        else expect(tensor, key).toMatchObject({ dtype: 'float32', data: data.map(roundToBfloat16) });
      }
    }
  });

  it('reads tied tensors from the storage that they share', async () => {
    const plain = await readStateDict(fixture('shared/shared.B.safetensors'));
    const state = await readStateDict(fixture('shared/shared.B.pth'));
    expect(new Set(state.keys())).toEqual(new Set(plain.keys()));
    for (const [key, tensor] of await readAll(state))
      expect(tensor, key).toEqual(await plain.get(key)!.read());
  });

  it('unwraps a checkpoint, and says so', async () => {
    const state = await readStateDict(fixture('shared/shared.B.checkpoint.pth'));
    expect(state.notes).toEqual([
      'it is a checkpoint: its "state_dict" was read; left out: epoch, arch, best_acc1',
    ]);
    expect([...state.keys()].every((key) => key.startsWith('module.'))).toBe(true);
    expect((await readStateDict(fixture('formats/model_key.pth'))).notes[0]).toMatch(/"model" was read/);
  });

  it('asks which of several state dicts to read', async () => {
    const path = fixture('formats/ema.pth');
    await expect(readStateDict(path)).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringContaining(
        '"state_dict", "state_dict_ema"; choose one with the option "key"',
      ) as string,
    });
    const state = await readStateDict(path, { key: 'state_dict_ema' });
    const { key, sha } = facts.keys[0]!;
    expect(shaOf(await state.get(key)!.bytes())).toBe(sha);
    await expect(readStateDict(path, { key: 'ema' })).rejects.toThrow(
      /no state dict under "ema"; it has "state_dict"/,
    );
    await expect(readStateDict(fixture('formats/half.safetensors'), { key: 'a' })).rejects.toThrow(
      /option "key"/,
    );
  });

  it('reads the metadata of a safetensors file', async () => {
    const { metadata } = await readStateDict(fixture('formats/metadata.safetensors'));
    expect(Object.keys(metadata).length).toBeGreaterThan(0);
  });

  it('accepts files that only loading can refuse', async () => {
    for (const name of ['missing_keys', 'unexpected_keys', 'wrong_shape', 'module_prefix', 'wrong_type'])
      expect((await readStateDict(fixture(`bad/${name}.safetensors`))).size).toBeGreaterThan(50);
  });

  it.each<[string, RegExp, string?]>([
    ['bad/empty.safetensors', /no tensors/],
    ['bad/zero_bytes.safetensors', /0 bytes/],
    ['bad/header_too_long.safetensors', /damaged or truncated/],
    ['bad/header_cut.safetensors', /damaged or truncated/],
    ['bad/data_cut.safetensors', /ends before its data does/],
    ['bad/not_json.safetensors', /not JSON/],
    ['bad/header_list.safetensors', /not a JSON object/],
    ['bad/offset_out_of_range.safetensors', /ends before its data does/],
    ['bad/offset_negative.safetensors', /data_offsets are \[-16,0\]/, 'a'],
    ['bad/overlap.safetensors', /overlaps/, 'b'],
    ['bad/hole.safetensors', /4 bytes before its data belong to no tensor/, 'b'],
    ['bad/length_mismatch.safetensors', /16 bytes, and float32 of shape \[5\] has 20/, 'a'],
    ['bad/unknown_dtype.safetensors', /dtype "F33" is unknown/, 'a'],
    ['bad/duplicate_key.safetensors', /twice/, 'a'],
    ['bad/forbidden_system.pth', /refers to posix\.system,/],
    ['bad/forbidden_getattr.pth', /refers to __builtin__\.getattr,/],
    ['bad/whole_model.pth', /torch\.nn\.modules\.container\.Sequential.*model\.state_dict\(\)/],
    ['bad/numpy_values.pth', /refers to numpy/],
    ['bad/list_of_tensors.pth', /holds a list/],
    ['bad/nothing_inside.pth', /no tensors/],
    ['bad/zip_cut.pth', /damaged zip/],
    ['bad/storage_missing.pth', /storage .*data\/0 is missing/, 'conv1.weight'],
    ['bad/pickle_cut.pth', /ends early/],
    ['bad/html.pth', /web page/],
  ])('refuses %s', async (name, reason, key) => {
    const error: unknown = await readStateDict(fixture(name)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'STATE_INVALID', details: key === undefined ? {} : { key } });
    expect((error as Error).message).toMatch(reason);
    expect((error as Error).message).toContain(basename(name));
  });

  it('has a case for every bad file of the fixtures', () => {
    const text = readFileSync(new URL(import.meta.url), 'utf8');
    for (const { file } of facts.bad) expect(text).toContain(basename(file).split('.')[0]);
  });

  it.each<[string, string, RegExp]>([
    ['a missing file', join(scratch, 'nowhere.safetensors'), /ENOENT/],
    ['a folder', scratch, /it is a folder/],
    ['a device', '/dev/null', /not a regular file/],
    ['text', write('notes.pth', Buffer.from('these are notes')), /neither safetensors nor/],
    [
      'another zip',
      write('photos.pth', makeZip([{ name: 'a.jpg', bytes: Buffer.alloc(9) }])),
      /0 files data\.pkl/,
    ],
    [
      'a compressed zip, which could be a bomb',
      write('bomb.pth', makeZip([{ name: 'a/data.pkl', bytes: Buffer.alloc(2 ** 24), isDeflated: true }])),
      /data\.pkl is compressed/,
    ],
  ])('refuses %s', async (_what, path, reason) => {
    await expect(readStateDict(path)).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringMatching(reason) as string,
    });
  });

  it('notices data that does not fit its checksum', async () => {
    const bytes = readFileSync(fixture('shared/shared.B.pth'));
    const state = await readStateDict(fixture('shared/shared.B.pth'));
    const [key, tensor] = [...state].find(([, { dims }]) => dims.length === 2)!;
    const at = bytes.indexOf(Buffer.from(await tensor.bytes()));
    bytes[at]! ^= 1;
    const damaged = await readStateDict(write('damaged.pth', bytes));
    await expect(damaged.get(key)!.read()).rejects.toMatchObject({
      code: 'STATE_INVALID',
      details: { key, reason: 'its checksum is wrong' },
    });
  });

  it('lists 8-bit floats, of which only the bytes can be read', async () => {
    const header = { w: { dtype: 'F8_E4M3', shape: [2, 3], data_offsets: [0, 6] } };
    const state = await readStateDict(write('f8.safetensors', safetensorsBytes(header, new Uint8Array(6))));
    const tensor = state.get('w')!;
    expect(tensor).toMatchObject({ dtype: 'float8_e4m3fn', dims: [2, 3] });
    expect(await tensor.bytes()).toEqual(new Uint8Array(6));
    await expect(tensor.read()).rejects.toMatchObject({ code: 'STATE_INVALID', details: { key: 'w' } });
  });

  it('reads only the header of a file of 1 GB', async () => {
    const header = { w: { dtype: 'F32', shape: [2 ** 28], data_offsets: [0, 2 ** 30] } };
    const bytes = safetensorsBytes(header, new Uint8Array(0));
    const path = write('sparse.safetensors', bytes);
    truncateSync(path, bytes.length + 2 ** 30);
    const read = vi.spyOn(SharedFile.prototype, 'read');
    const state = await readStateDict(path);
    const asked = read.mock.calls.reduce((sum, [, length]) => sum + length, 0);
    read.mockRestore();
    expect(state.get('w')!.dims).toEqual([2 ** 28]);
    expect(asked).toBeLessThan(1000);
  });

  it('keeps no file open', async () => {
    const path = fixture('shared/shared.B.pth');
    const state = await readStateDict(path);
    await Promise.all([...state.values()].map((tensor) => tensor.read()));
    const isOpen = readdirSync('/proc/self/fd').some((fd) => linkOf(`/proc/self/fd/${fd}`) === path);
    expect(isOpen).toBe(false);
  });

  it.each(['shared/shared.B.pth', 'shared/shared.B.safetensors'])(
    'notices that %s has changed',
    async (name) => {
      const path = join(scratch, `changing-${basename(name)}`);
      copyFileSync(fixture(name), path);
      const state = await readStateDict(path);
      const [first] = state.values();
      utimesSync(path, 1, 1);
      await expect(first!.read()).rejects.toMatchObject({ code: 'MODEL_CHANGED', details: { source: path } });
      rmSync(path);
      await expect(first!.read()).rejects.toMatchObject({ code: 'MODEL_CHANGED' });
    },
  );
});

describe('the index of a sharded file', () => {
  const shard = (key: string): Buffer =>
    safetensorsBytes({ [key]: { dtype: 'U8', shape: [4], data_offsets: [0, 4] } }, Buffer.alloc(4, key));
  write('model-1.safetensors', shard('a'));
  write('model-2.safetensors', shard('b'));
  const index = (map: unknown): string =>
    write('model.safetensors.index.json', Buffer.from(JSON.stringify({ metadata: {}, weight_map: map })));

  it('leads to the tensors of all shards, in its order', async () => {
    const state = await readStateDict(index({ b: 'model-2.safetensors', a: 'model-1.safetensors' }));
    expect(await readAll(state)).toEqual([
      ['b', { dtype: 'uint8', dims: [4], data: new Uint8Array(4).fill(98) }],
      ['a', { dtype: 'uint8', dims: [4], data: new Uint8Array(4).fill(97) }],
    ]);
    expect((await readStateDict(index({ b: 'model-2.safetensors' }))).notes).toEqual([]);
  });

  it.each<[string, unknown, RegExp]>([
    ['a shard that is missing', { a: 'model-3.safetensors' }, /model-3\.safetensors.*ENOENT/],
    [
      'a tensor that its shard lacks',
      { a: 'model-2.safetensors' },
      /"model-2\.safetensors" does not hold it/,
    ],
    ['a file elsewhere', { a: '../model-1.safetensors' }, /not a file beside it/],
    ['another JSON', undefined, /weight_map/],
    ['no tensors', {}, /no tensors/],
  ])('is refused for %s', async (_what, map, reason) => {
    await expect(readStateDict(index(map))).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringMatching(reason) as string,
    });
  });

  it('is refused if it has a key twice', async () => {
    const path = write(
      'twice.json',
      Buffer.from('{"weight_map":{"a":"model-1.safetensors","a":"model-2.safetensors"}}'),
    );
    await expect(readStateDict(path)).rejects.toThrow(/twice/);
  });
});

function roundToBfloat16(value: number): number {
  const words = new Uint32Array(Float32Array.of(value).buffer);
  const word = words[0]!;
  // Ties to even.
  words[0] = ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) << 16;
  return new Float32Array(words.buffer)[0]!;
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
