import { describe, expect, it } from 'vitest';
import { parseHeader } from '../../../../src/learn/parameters/safetensors/safetensors-header.js';

const parse = (header: unknown, dataBytes: number): ReturnType<typeof parseHeader> =>
  parseHeader(Buffer.from(typeof header === 'string' ? header : JSON.stringify(header)), dataBytes);
const bytes = (start: number, end: number, more: object = {}): object => ({
  dtype: 'U8',
  shape: [end - start],
  data_offsets: [start, end],
  ...more,
});

describe('parseHeader', () => {
  it('keeps the order of the text, whatever the keys', () => {
    const text = `{"b":${JSON.stringify(bytes(4, 5))},"7":${JSON.stringify(bytes(0, 4))}, "__proto__" : ${JSON.stringify(bytes(5, 5))}, "\\"\\\\":${JSON.stringify(bytes(5, 6))}}  `;
    expect(parse(text, 6).entries.map(({ key, start }) => [key, start])).toEqual([
      ['b', 4],
      ['7', 0],
      ['__proto__', 5],
      ['"\\', 5],
    ]);
  });

  it('knows elements of 4 and 6 bits', () => {
    const header = {
      four: { dtype: 'F4', shape: [2, 3], data_offsets: [0, 3] },
      six: { dtype: 'F6_E2M3', shape: [4], data_offsets: [3, 6] },
    };
    expect(parse(header, 6).entries.map(({ dtype }) => dtype)).toEqual(['float4_e2m1fn', 'float6_e2m3fn']);
    expect(() => parse({ w: { dtype: 'F4', shape: [3], data_offsets: [0, 2] } }, 2)).toThrow(/has 1\.5/);
  });

  it.each<[string, unknown, number, RegExp]>([
    [
      'a key twice in a tensor',
      '{"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}}',
      1,
      /key "dtype" twice/,
    ],
    ['equal keys that are written differently', '{"a":{},"\\u0061":{}}', 0, /key "a" twice/],
    ['metadata that are no texts', { __metadata__: { epoch: 3 } }, 0, /__metadata__/],
    ['a tensor that is a number', { a: 3 }, 0, /does not describe a tensor/],
    ['no dtype', { a: { shape: [], data_offsets: [0, 1] } }, 1, /dtype undefined is unknown/],
    ['a shape of fractions', { a: bytes(0, 1, { shape: [0.5, 2] }) }, 1, /shape is \[0\.5,2\]/],
    [
      'a shape beyond all bounds',
      { a: bytes(0, 1, { shape: Array(40).fill(2 ** 50) }) },
      1,
      /it has 1 bytes/,
    ],
    ['three offsets', { a: bytes(0, 1, { data_offsets: [0, 1, 1] }) }, 1, /data_offsets/],
    ['offsets in the wrong order', { a: bytes(0, 1, { data_offsets: [1, 0] }) }, 1, /data_offsets/],
    ['bytes after the last tensor', { a: bytes(0, 1) }, 3, /last 2 bytes belong to no tensor/],
    ['text that is not UTF-8', Buffer.from('{"\xff":1}', 'latin1'), 0, /its header is not/],
  ])('refuses %s', (_what, header, dataBytes, reason) => {
    const given = Buffer.isBuffer(header)
      ? () => parseHeader(header, dataBytes)
      : () => parse(header, dataBytes);
    expect(given).toThrow(reason);
  });
});
