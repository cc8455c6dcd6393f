import { describe, expect, it } from 'vitest';
import { readOptions } from '../../../../src/base/options.js';
import { SOURCE_DEFAULTS, SOURCE_FIELDS } from '../../../../src/photos/feeds/items/source-options.js';

describe('the options of a source', () => {
  it('have defaults', () => expect(readOptions(SOURCE_FIELDS, {}, 'it')).toEqual(SOURCE_DEFAULTS));

  it.each([
    ['column', ''],
    ['column', 5],
    ['nulSeparated', 1],
    ['allowHttp', 'yes'],
    ['httpTimeoutMs', 0],
    ['httpTimeoutMs', 3_600_001],
    ['httpMaxBytes', 1024 ** 3 + 1],
    ['httpMaxBytes', 0.5],
    ['headers', 'x: y'],
    ['name', 'query'],
    ['name', { column: '' }],
    ['name', { column: 'a', b: 1 }],
  ])('refuses %s: %j', (option, value) => {
    expect(() => readOptions(SOURCE_FIELDS, { [option]: value }, 'it')).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', details: expect.objectContaining({ option }) }),
    );
  });
});
