import { describe, expect, it } from 'vitest';
import { folderName, folderNames } from '../../../src/datasets/records/folder-name.js';

describe('folderName', () => {
  it.each([
    ['features', 'features'],
    ['a/b', 'a%2Fb'],
    ['100%', '100%25'],
    ['été', '%C3%A9t%C3%A9'],
    ['..', '%2E%2E'],
    ['.', '%2E'],
    ['a.', 'a%2E'],
    ['con', '%63on'],
    ['NUL.x', '%4EUL.x'],
    ['console', 'console'],
    ['/layer4/Relu:0', '%2Flayer4%2FRelu%3A0'],
  ])('makes %s into %s', (key, folder) => expect(folderName(key)).toBe(folder));

  it('refuses keys that a file system may take for one', () => {
    expect(() => folderNames(['A', 'a'])).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }));
    expect([...folderNames(['a', 'b']).values()]).toEqual(['a', 'b']);
  });
});
