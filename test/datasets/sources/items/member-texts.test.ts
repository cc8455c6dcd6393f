/** JSON passed on as it was written. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memberTexts } from '../../../../src/datasets/sources/items/member-texts.js';

describe('memberTexts', () => {
  it('keeps what reading and writing would change', () => {
    const text =
      ' { "a" : 9223372036854775807 ,"b":1.0, "c": -0.0,"d":1e400,"e":"\\u00e9\\"}",\t"f":[ 1, {"x":"]"} ],"g":{ },"h":true,"":null } ';
    expect([...memberTexts(text)]).toEqual([
      ['a', '9223372036854775807'],
      ['b', '1.0'],
      ['c', '-0.0'],
      ['d', '1e400'],
      ['e', '"\\u00e9\\"}"'],
      ['f', '[ 1, {"x":"]"} ]'],
      ['g', '{ }'],
      ['h', 'true'],
      ['', 'null'],
    ]);
    expect([...memberTexts('{}'), ...memberTexts('{"a\\\\":1,"a\\\\":2}')]).toEqual([['a\\', '2']]);
  });

  it('finds what JSON.parse finds', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(3), (object, indent) => {
        const members = memberTexts(JSON.stringify(object, undefined, indent));
        const parsed = [...members].map(([name, text]) => [name, JSON.parse(text) as unknown]);
        expect(Object.fromEntries(parsed)).toEqual(JSON.parse(JSON.stringify(object)));
      }),
    );
  });

  it('takes megabytes', () => {
    const long = 'x'.repeat(5e6);
    const text = `{"a":"${long}","b":${JSON.stringify(Array.from({ length: 1e5 }, () => [1, 'y']))}}`;
    expect(memberTexts(text).get('a')).toHaveLength(long.length + 2);
  });
});
