import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ExternalTensor } from '../../../src/onnx/file/external-data.js';
import { payloadRange } from '../../../src/onnx/file/tensor-payload.js';
import type { FileRange } from '../../../src/onnx/file/wire/chunk.js';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { scratchFolder } from '../../support/fixtures.js';

const path = join(scratchFolder(), 'w.bin');
writeFileSync(path, 'weights');
const files = { folder: '', pathOf: new Map([['w.bin', path]]) };
const field = { number: 5, wireType: 2, start: 0, bodyStart: 0, end: 0, int: 0 };

/** The range of a tensor with entries of `external_data`. */
function rangeOf(
  more: Readonly<Record<string, string>>,
  elemType: number = ELEMENT_TYPE.uint8,
  dims: readonly number[] = [3],
): FileRange {
  const external = new Map(Object.entries({ location: 'w.bin', ...more }));
  const tensor = { field, name: 'w', elemType, dims, external };
  const item: ExternalTensor = { name: 'w', location: 'w.bin', owner: field, tensor };
  return payloadRange(item, files);
}

describe('payloadRange', () => {
  it('finds ranges, with and without a stated length', () => {
    expect(rangeOf({ offset: '2', length: '3' })).toEqual({ path, start: 2, end: 5 });
    expect(rangeOf({})).toMatchObject({ start: 0, end: 3 });
  });

  it('rounds elements of less than a byte up to whole bytes', () => {
    expect(rangeOf({}, ELEMENT_TYPE.int4, [3])).toMatchObject({ start: 0, end: 2 });
    expect(rangeOf({}, ELEMENT_TYPE.float16, [3])).toMatchObject({ start: 0, end: 6 });
  });

  it.each([
    { offset: '5' },
    { offset: '-1' },
    { offset: 'x' },
    { length: '4' },
    { offset: '99999999999999999999' },
  ])('refuses %j', (more) => {
    expect(() => rangeOf(more)).toThrow(expect.objectContaining({ code: 'EXTERNAL_DATA_UNSAFE' }));
  });

  it.each([
    [ELEMENT_TYPE.string, [3]],
    [99, [3]],
    [ELEMENT_TYPE.uint8, [-3]],
    [ELEMENT_TYPE.uint8, [2 ** 40, 2 ** 40]],
  ] as const)('refuses elements of type %i with dims %j', (elemType, dims) => {
    expect(() => rangeOf({}, elemType, dims)).toThrow(
      expect.objectContaining({ code: 'EXTERNAL_DATA_UNSAFE' }),
    );
  });
});
