import { describe, expect, it } from 'vitest';
import {
  checkSourceOptions,
  SOURCE_DEFAULTS,
} from '../../../../src/datasets/sources/items/source-options.js';

describe('checkSourceOptions', () => {
  it('takes the defaults', () => expect(checkSourceOptions(SOURCE_DEFAULTS)).toEqual(SOURCE_DEFAULTS));

  it.each([
    ['column', ''],
    ['column', 5],
    ['nulSeparated', 1],
    ['allowHttp', 'yes'],
    ['httpTimeoutMs', 0],
    ['httpTimeoutMs', 3_600_001],
    ['httpMaxBytes', 1024 ** 3 + 1],
    ['httpMaxBytes', 0.5],
  ])('refuses %s: %j', (option, value) => {
    const options = { ...SOURCE_DEFAULTS, [option]: value };
    expect(() => checkSourceOptions(options)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', details: expect.objectContaining({ option }) }),
    );
  });
});
