import { describe, expect, it } from 'vitest';
import {
  BLOCK,
  isZeroBlock,
  readPaxRecords,
  readTarHeader,
} from '../../../../src/datasets/sources/archives/tar-header.js';
import { sealTarBlock, tarBlock } from '../../../support/archives.js';

describe('readTarHeader', () => {
  it('reads name, size, time and type; ustar joins the prefix, GNU has none', () => {
    expect(readTarHeader(tarBlock('a.jpg', 5, { prefix: 'deep' }))).toEqual({
      name: Buffer.from('deep/a.jpg'),
      linkName: Buffer.from(''),
      sizeBytes: 5,
      modified: 15,
      type: '0',
    });
    const gnu = readTarHeader(tarBlock('a.jpg', 5, { magic: 'ustar  ', prefix: 'deep' }));
    expect(Buffer.from(gnu!.name).toString()).toBe('a.jpg');
    for (const type of ['\0', '7']) expect(readTarHeader(tarBlock('a', 0, { type }))?.type).toBe('0');
  });

  it('reads binary numbers, which may be large or negative', () => {
    const block = tarBlock('a', 0);
    block.set([0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1], 124);
    block.set([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], 136);
    expect(readTarHeader(sealTarBlock(block))).toMatchObject({ sizeBytes: 2 ** 33 + 1, modified: -2 });
    block.set([0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 124);
    expect(readTarHeader(sealTarBlock(block))).toBeUndefined();
  });

  it('refuses a wrong checksum, and what is no number', () => {
    const block = tarBlock('a', 0);
    block[0]! ^= 1;
    expect(readTarHeader(block)).toBeUndefined();
    const odd = tarBlock('a', 0);
    odd.write('9zz', 124);
    expect(readTarHeader(sealTarBlock(odd))).toBeUndefined();
    expect(isZeroBlock(Buffer.alloc(BLOCK))).toBe(true);
  });
});

describe('readPaxRecords', () => {
  const read = (text: string): Map<string, string> | undefined => {
    const records = readPaxRecords(Buffer.from(text));
    return records && new Map([...records].map(([key, value]) => [key, Buffer.from(value).toString()]));
  };

  it('reads keys and values, which may hold line ends and equals signs', () => {
    expect(read('12 path=a=b\n13 x=one\ntwo\n\0\0')).toEqual(
      new Map([
        ['path', 'a=b'],
        ['x', 'one\ntwo'],
      ]),
    );
    expect(read('')).toEqual(new Map());
  });

  it.each(['x path=a\n', '99 path=a\n', '3 =\n', '0 a=b\n', '-9 path=a\n', '12345678901 a=b\n', 'path'])(
    'refuses %j',
    (text) => expect(read(text)).toBeUndefined(),
  );
});
