/** The parts of a service that need no server: media types, elements of tensors. */
import { describe, expect, it } from 'vitest';
import { elementsToJson } from '../../../src/tensor/json-elements.js';
import type { Tensor } from '../../../src/tensor/tensor.js';
import { acceptedForms } from '../../../src/apps/serve/accept.js';
import { DTYPES, encodeBinaryData, readBinaryData, readJsonData } from '../../../src/apps/serve/datatypes.js';

describe('acceptedForms', () => {
  it.each([
    [undefined, ['json', 'npy']],
    ['', ['json', 'npy']],
    ['*/*', ['json', 'npy']],
    ['application/json', ['json']],
    ['application/x-npy', ['npy']],
    ['application/octet-stream', ['npy']],
    ['application/x-npy, */*', ['npy', 'json']],
    ['application/x-npy;q=0.5, application/json', ['json', 'npy']],
    ['application/json;q=0, */*', ['npy']],
    ['APPLICATION/JSON', ['json']],
    ['application/*;q=0.1, application/x-npy', ['npy', 'json']],
    ['text/html', []],
    ['application/json;q=x', []],
  ])('of %j are %j', (accept, forms) => expect(acceptedForms(accept)).toEqual(forms));
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

  it.each(cases)('%s come back from JSON and from bytes', (datatype, values, text) => {
    const dtype = DTYPES.get(datatype)!;
    const data = readJsonData('x', dtype, [2], values);
    const tensor = { dtype, dims: [2], data } as Tensor;
    expect(`[${elementsToJson(dtype, data)}]`).toBe(text);
    // At an odd place, as bytes behind JSON are.
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
  ])('%s cannot be %j', (datatype, value) => {
    expect(() => readJsonData('x', DTYPES.get(datatype)!, [1], [value])).toThrow(/must be made of/);
  });

  it('refuses text that is no UTF-8', () => {
    const bytes = Uint8Array.of(1, 0, 0, 0, 0xff);
    expect(() => readBinaryData('x', 'string', [1], bytes)).toThrow(/UTF-8/);
  });
});
