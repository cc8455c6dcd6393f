import { describe, expect, it } from 'vitest';
import { toFloat16Bits } from '../../../src/onnx/tensor/float16.js';
import { elementsToJson, nestedToJson } from '../../../src/onnx/tensor/json-elements.js';
import type { DType, TensorData } from '../../../src/onnx/tensor/tensor.js';

describe('elementsToJson', () => {
  const cases: readonly (readonly [DType, TensorData, string])[] = [
    ['float32', Float32Array.of(0.1, -0, NaN, Infinity, 1e-7), '0.1,-0.0,null,null,1e-7'],
    ['float64', Float64Array.of(0.1, -0, NaN, 1e300), '0.1,-0.0,null,1e+300'],
    ['float16', Uint16Array.of(...[0.5, -0, NaN].map(toFloat16Bits)), '0.5,-0.0,null'],
    ['bool', Uint8Array.of(1, 0), 'true,false'],
    ['int8', Int8Array.of(-128, 127), '-128,127'],
    ['int64', BigInt64Array.of(-(2n ** 63n), 7n), '-9223372036854775808,7'],
    ['uint64', BigUint64Array.of(2n ** 64n - 1n), '18446744073709551615'],
    ['string', ['é"', ''], '"é\\"",""'],
    ['float32', new Float32Array(), ''],
  ];

  it.each(cases)('%s, case %#', (dtype, data, text) => expect(elementsToJson(dtype, data)).toBe(text));

  it('writes a part of them', () => {
    expect(elementsToJson('float32', Float32Array.of(1, 2, 3, 4), 1, 3)).toBe('2,3');
    expect(elementsToJson('string', ['a', 'b', 'c'], 2, 3)).toBe('"c"');
  });
});

describe('nestedToJson', () => {
  const data = Float32Array.from({ length: 13 }, (_, i) => i);

  it.each([
    [[], '1'],
    [[3], '[1,2,3]'],
    [[2, 3], '[[1,2,3],[4,5,6]]'],
    [[2, 1, 2], '[[[1,2]],[[3,4]]]'],
    [[0], '[]'],
    [[2, 0], '[[],[]]'],
  ])('nests by dims %j', (dims, text) => expect(nestedToJson('float32', data, 1, dims)).toBe(text));
});
