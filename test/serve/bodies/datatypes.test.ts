/** Elements of tensors as JSON and as bytes. */
import { describe, expect, it } from 'vitest';
import { DTYPES, encodeBinaryData, readBinaryData } from '../../../src/serve/bodies/datatypes.js';
import { readJsonData } from '../../../src/serve/bodies/read-list.js';
import { fromFloat16Bits } from '../../../src/tensor/float16.js';
import { elementsToJson } from '../../../src/tensor/json-elements.js';
import { makeTensor } from '../../../src/tensor/tensor.js';

/** Values that a tensor stores in another form than JSON has them. */
const STORED: Readonly<Record<string, (value: unknown) => unknown>> = {
  BOOL: Number,
  INT64: (value) => BigInt(value as number),
  UINT64: (value) => BigInt(value as number),
  FP32: (value) => Math.fround(value as number),
};

describe('shapes', () => {
  it('without elements may not ask for outputs of gigabytes', () => {
    expect(readBinaryData('x', 'float32', [0, 3, 1024, 1024], new Uint8Array())).toHaveLength(0);
    for (const shape of [
      [1e9, 3, 1, 0],
      [0, 3, 2 ** 30, 2 ** 30],
    ])
      expect(() => readBinaryData('x', 'float32', shape, new Uint8Array())).toThrow('smaller sizes');
  });
});

describe('elements of tensors', () => {
  const cases: readonly (readonly [string, readonly unknown[], string])[] = [
    ['BOOL', [true, false], '[true,false]'],
    ['UINT8', [0, 255], '[0,255]'],
    ['INT16', [-32768, 32767], '[-32768,32767]'],
    ['INT64', [-(2 ** 53) + 1, 7], '[-9007199254740991,7]'],
    ['UINT64', [0, 2 ** 53 - 1], '[0,9007199254740991]'],
    ['FP16', [-0, 0.5], '[-0.0,0.5]'],
    ['FP32', [-0, 0.1], '[-0.0,0.1]'],
    ['FP64', [1e-7, 1e300], '[1e-7,1e+300]'],
    ['BYTES', ['é', ''], '["é",""]'],
  ];

  it.each(cases)('%s come back from JSON and from bytes', async (datatype, values, text) => {
    const dtype = DTYPES.get(datatype)!;
    const data = await readJsonData('x', dtype, [2], Buffer.from(text));
    const stored: unknown[] = [...data];
    expect(datatype === 'FP16' ? stored.map((bits) => fromFloat16Bits(bits as number)) : stored).toEqual(
      values.map((value) => STORED[datatype]?.(value) ?? value),
    );
    const tensor = makeTensor(dtype, [2], data);
    expect(`[${elementsToJson(dtype, data)}]`).toBe(text);
    // At an odd place, as bytes after JSON are.
    const bytes = encodeBinaryData(tensor);
    const shifted = Buffer.concat([Buffer.from('x'), bytes]).subarray(1);
    expect(readBinaryData('x', dtype, [2], shifted)).toEqual(data);
  });

  it.each([
    ['UINT8', 256],
    ['UINT8', -1],
    ['INT32', 1.5],
    ['INT64', 2 ** 53],
    ['FP32', '1'],
    ['FP32', null],
    ['BOOL', 1],
    ['BYTES', 1],
  ])('%s cannot be %j', async (datatype, value) => {
    const list = Buffer.from(JSON.stringify([value]));
    await expect(readJsonData('x', DTYPES.get(datatype)!, [1], list)).rejects.toThrow(/must be made of/);
  });

  it('refuses text that is no UTF-8', () => {
    const bytes = Uint8Array.of(1, 0, 0, 0, 0xff);
    expect(() => readBinaryData('x', 'string', [1], bytes)).toThrow(/UTF-8/);
  });
});
