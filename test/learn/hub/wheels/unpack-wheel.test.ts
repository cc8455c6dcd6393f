/** Wheels that are damaged or hostile: a typed error, and no file outside the folder. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TapirError } from '../../../../src/base/errors.js';
import { WHEEL_CONTENTS } from '../../../../src/learn/hub/wheels/engine-files.js';
import { unpackWheel } from '../../../../src/learn/hub/wheels/unpack-wheel.js';
import { makeZip, type ZippedFile } from '../../../support/archives.js';
import { failureOf } from '../../../support/failure.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { makeWheel, NEEDED, neededSizes } from '../../../support/wheels.js';

const scratch = scratchFolder();
let count = 0;

/** Writes a wheel, and unpacks it into a folder of its own. */
function unpack(
  bytes: Uint8Array,
  signal?: AbortSignal,
): { root: string; folder: string; result: Promise<Record<string, number>> } {
  const root = join(scratch, String(count++));
  const folder = join(root, 'a', 'b');
  mkdirSync(folder, { recursive: true });
  const path = join(root, 'tiny.whl');
  writeFileSync(path, bytes);
  return { root, folder, result: unpackWheel(path, folder, WHEEL_CONTENTS.get('openvino')!, signal) };
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);

describe('unpackWheel', () => {
  it('writes what the engine needs and the licences, and nothing else', async () => {
    const { folder, result } = unpack(makeWheel());
    expect(await result).toEqual(neededSizes());
    expect(filesIn(folder).toSorted()).toEqual(
      Object.values(NEEDED)
        .map((place) => place.split('/').at(-1)!)
        .toSorted(),
    );
    expect(readFileSync(join(folder, 'libs/libtbb.so.12'), 'utf8')).toContain(
      'content of openvino/libs/libtbb',
    );
  });

  it('takes the libraries of Windows and macOS, without import libraries', async () => {
    const named = (names: readonly string[]): Buffer =>
      makeZip(names.map((name) => ({ name: `openvino/libs/${name}`, bytes: Buffer.from(name) })));
    const windows = [
      'openvino.dll',
      'openvino_c.dll',
      'openvino_intel_cpu_plugin.dll',
      'openvino_onnx_frontend.dll',
    ];
    const npu = ['openvino_intel_npu_compiler.dll', 'openvino_intel_npu_vm_runtime.dll', 'openvino_c.lib'];
    expect(Object.keys(await unpack(named([...windows, 'tbb12.dll', ...npu])).result)).toEqual(
      [...windows, 'tbb12.dll'].map((name) => `libs/${name}`),
    );
    const mac = [
      'libopenvino.2641.dylib',
      'libopenvino_c.2641.dylib',
      'libopenvino_arm_cpu_plugin.so',
      'libopenvino_onnx_frontend.2641.dylib',
      'libtbb.12.dylib',
    ];
    const others = ['libopenvino_jax_frontend.2641.dylib', 'libopenvino_hetero_plugin.so'];
    expect(Object.keys(await unpack(named([...others, ...mac])).result)).toEqual(
      mac.map((name) => `libs/${name}`),
    );
  });

  const lib = 'openvino/libs/libextra.so';
  const bytes = Buffer.from('a library, a library, a library');
  it.each<[string, ZippedFile, RegExp]>([
    ['a name that leads out', { name: '../../evil.so', bytes }, /"\.\.\/\.\.\/evil\.so" in it is not safe/],
    ['a name that leads out of libs', { name: 'openvino/libs/../../../x.so', bytes }, /is not safe/],
    ['a name with backslashes', { name: 'openvino\\libs\\..\\..\\x.so', bytes }, /is not safe/],
    ['an absolute name', { name: '/tmp/evil.so', bytes }, /is not safe/],
    ['a name with a drive', { name: 'C:/evil.so', bytes }, /is not safe/],
    ['an empty name', { name: '', bytes }, /is not safe/],
    ['a name with NUL', { name: 'openvino/libs/a\0.so', bytes }, /is not safe/],
    ['a link', { name: lib, bytes: Buffer.from('/etc/passwd'), mode: 0o120777 }, /is a link/],
    ['a device', { name: lib, bytes, mode: 0o020666 }, /special file/],
    ['a duplicate', { name: 'openvino/libs/libtbb.so.12', bytes }, /twice/],
    ['a duplicate on some systems', { name: 'openvino/libs/LIBTBB.so.12', bytes }, /twice/],
    ['an encrypted library', { name: lib, bytes, isEncrypted: true }, /encrypted/],
    ['a library packed otherwise', { name: lib, bytes, method: 14 }, /method 14/],
    [
      'a bomb',
      { name: lib, bytes: Buffer.alloc(2 ** 24), isDeflated: true, statedBytes: 99 },
      /more than the 99/,
    ],
    [
      'a library of another size',
      { name: lib, bytes, isDeflated: true, statedBytes: 99 },
      /instead of the 99/,
    ],
    ['a library with another checksum', { name: lib, bytes, statedCrc: 7 }, /checksum/],
    ['damaged data', { name: lib, bytes: Buffer.alloc(50, 0xff), method: 8 }, /invalid/],
  ])('refuses %s', async (_what, entry, reason) => {
    const { root, folder, result } = unpack(makeWheel([entry]));
    const error = await failureOf(result, TapirError);
    expect(error).toMatchObject({ code: 'PACKAGE_INVALID', details: { path: join(root, 'tiny.whl') } });
    expect(error.message).toMatch(reason);
    expect(filesIn(root).length - filesIn(folder).length).toBe(1);
    expect(filesIn(folder).some((name) => /extra|evil|partial/.test(name))).toBe(false);
  });

  it('refuses more bytes than any engine has, before it writes', async () => {
    const huge = [1, 2, 3].map((i) => ({
      name: `openvino/libs/lib${i}.so`,
      bytes,
      statedBytes: 0xf000_0000,
    }));
    const { folder, result } = unpack(makeWheel(huge));
    expect(await failureOf(result, TapirError)).toMatchObject({
      code: 'PACKAGE_INVALID',
      details: { reason: expect.stringMatching(/unpacks to more than/) as unknown },
    });
    expect(filesIn(folder)).toEqual([]);
  });

  it('refuses a wheel without the libraries, and a file that is no zip, or that is cut off', async () => {
    const cases: readonly [Uint8Array, RegExp][] = [
      [makeWheel([], ['openvino/libs/libopenvino_c.so.2641']), /no library openvino_c$/],
      [makeWheel([], ['openvino/libs/libopenvino_intel_cpu_plugin.so']), /no library cpu_plugin$/],
      [Buffer.from('<html>'), /./],
      [makeWheel().subarray(0, 5000), /./],
      [new Uint8Array(0), /./],
    ];
    for (const [content, reason] of cases) {
      const { folder, result } = unpack(content);
      const error = await failureOf(result, TapirError);
      expect(error).toMatchObject({ code: 'PACKAGE_INVALID' });
      expect(error.message).toMatch(reason);
      expect(filesIn(folder)).toEqual([]);
    }
  });

  it('refuses a wheel with one byte changed, or gives the same content', async () => {
    const good = makeWheel();
    for (let at = 0; at < good.length; at += 97) {
      const bad = Buffer.from(good);
      bad[at]! ^= 0x55;
      const { folder, result } = unpack(bad);
      const error: unknown = await result.then(
        () => null,
        (thrown: unknown) => thrown,
      );
      if (error !== null) expect(error).toMatchObject({ code: 'PACKAGE_INVALID' });
      else
        for (const file of readdirSync(join(folder, 'libs')))
          expect(readFileSync(join(folder, 'libs', file), 'utf8')).toMatch(
            /^(?:content of openvino\/.+\n){500}$/,
          );
    }
  });

  it('stops when the signal fires', async () => {
    const { folder, result } = unpack(makeWheel(), AbortSignal.abort(new Error('enough')));
    await expect(result).rejects.toThrow('enough');
    expect(filesIn(folder)).toEqual([]);
  });
});
