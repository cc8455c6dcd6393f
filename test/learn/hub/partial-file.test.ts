import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { digestFile } from '../../../src/base/digest.js';
import { PartialFile, sizeOfFile } from '../../../src/learn/hub/partial-file.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();
const NOTHING = { bytes: 0, validator: null };
const url = 'https://a/model.onnx';
const newTarget = async (): Promise<string> => join(await mkdtemp(join(scratch, 'p-')), 'model.onnx');

describe('PartialFile', () => {
  it('keeps what has arrived, for its address', async () => {
    const target = await newTarget();
    const partial = new PartialFile(target);
    expect(await partial.resumable(url, true)).toEqual(NOTHING);
    const output = await partial.open(0, { url, validator: '"one"' });
    await output.append(Buffer.from('hello'));
    await output.pause();
    expect(await partial.resumable(url, false)).toEqual({ bytes: 5, validator: '"one"' });
    expect(await partial.resumable('https://b/', true)).toEqual(NOTHING);
    const more = await partial.open(5, { url, validator: '"one"' });
    await more.append(Buffer.from('!'));
    await more.pause();
    await partial.finish();
    expect(readFileSync(target, 'utf8')).toBe('hello!');
    expect([partial.path, `${partial.path}.json`].map((path) => existsSync(path))).toEqual([false, false]);
  });

  it('keeps bytes without a validator only if a checksum will tell', async () => {
    const partial = new PartialFile(await newTarget());
    const output = await partial.open(0, { url, validator: null });
    await output.append(Buffer.from('x'));
    await output.pause();
    expect(await partial.resumable(url, false)).toEqual(NOTHING);
    expect(await partial.resumable(url, true)).toEqual({ bytes: 1, validator: null });
  });

  it.each(['', '{', 'null', '[]', '{"url":3}'])('keeps nothing if its record is %j', async (record) => {
    const partial = new PartialFile(await newTarget());
    writeFileSync(partial.path, 'bytes');
    writeFileSync(`${partial.path}.json`, record);
    expect(await partial.resumable(url, true)).toEqual(NOTHING);
  });

  it('cannot be opened where nothing can be written', async () => {
    const partial = new PartialFile('/proc/none/model.onnx');
    await expect(partial.open(0, { url, validator: null })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
  });
});

describe('a file', () => {
  it('has a size and a checksum', async () => {
    const path = await newTarget();
    expect(await sizeOfFile(path)).toBeNull();
    expect(await sizeOfFile(scratch)).toBeNull();
    writeFileSync(path, 'abc');
    expect(await sizeOfFile(path)).toBe(3);
    // FIPS 180-2, appendix B.1.
    expect(await digestFile(path)).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });
});
