/** Lists of elements in JSON, against JSON.parse. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readJsonData } from '../../../src/serve/bodies/read-list.js';
import type { DType } from '../../../src/tensor/tensor.js';

const read = (text: string, shape: readonly number[], dtype: DType = 'float64') =>
  readJsonData('x', dtype, shape, Buffer.from(text));

describe('readJsonData', () => {
  it('reads the doubles that JSON.parse reads, in whatever spelling', async () => {
    const spelled = fc
      .tuple(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer({ min: 0, max: 20 }))
      .chain(([value, digits]) =>
        fc.constantFrom(JSON.stringify(value), value.toExponential(digits), value.toPrecision(digits + 1)),
      );
    await fc.assert(
      fc.asyncProperty(fc.array(spelled, { minLength: 1, maxLength: 20 }), async (texts) => {
        const text = `[ ${texts.join(' ,\n\t')} ]`;
        expect([...(await read(text, [texts.length]))]).toEqual(JSON.parse(text));
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    '[1.7976931348623157e308,5e-324,123456789012345678901234567890]',
    '[0.1e-5,1E+2,-0.0,-0]',
    '[9007199254740993,0.000000000000000000000000000001,1e400]',
  ])('reads %s', async (text) => {
    const expected = JSON.parse(text) as number[];
    expect([...(await read(text, [expected.length]))]).toEqual(expected);
  });

  it.each([
    [[2, 2], '[[1,2],[3,4]]'],
    [[2, 2], '[1,2,3,4]'],
    [[2, 1, 2], ' [ [ [1, 2] ], [ [3,4] ] ] '.trim()],
    [[4], '[1,2,3,4]'],
    [[1, 4], '[[1,2,3,4]]'],
  ])('takes shape %j as %s', async (shape, text) => {
    expect([...(await read(text, shape))]).toEqual([1, 2, 3, 4]);
  });

  it.each([
    [[], '[7]', [7]],
    [[0], '[]', []],
    [[2, 0], '[[],[]]', []],
    [[0, 2], '[]', []],
  ])('takes shape %j as %s', async (shape, text, values) => {
    expect([...(await read(text, shape))]).toEqual(values);
  });

  it('reads texts with escapes, and refuses broken ones', async () => {
    expect(await read(String.raw`["a\"]","\\","\u00e9","é"]`, [4], 'string')).toEqual([
      'a"]',
      '\\',
      'é',
      'é',
    ]);
    for (const text of ['["a]', '["\\x"]', '["a\nb"]', '[a]'])
      await expect(read(text, [1], 'string'), text).rejects.toThrow(/BYTES/);
    await expect(
      readJsonData('x', 'string', [1], Uint8Array.of(0x5b, 0x22, 0xff, 0x22, 0x5d)),
    ).rejects.toThrow(/BYTES/);
  });

  it.each([
    ['[1,2,3]', /4 elements, as its shape says, and not/],
    ['[1,2,3     ]', /4 elements, as its shape says, and not 3/],
    ['[1,2,3,4,5]', /and not more/],
    ['[[1,2],[3]  ]', /nested as its shape/],
    ['[[1,2,3],[4]]', /nested as its shape/],
    ['[[1,2],[3,4],[]]', /nested as its shape/],
    ['[[1,2],3,4]   ', /nested as its shape/],
    ['[1,[2,3],4]   ', /nested as its shape/],
    ['[[[1],2],[3,4]]', /nested as its shape/],
    ['[1,2,3,4,]', /not of nothing/],
    ['[,1,2,3,4]', /made of FP64/],
    ['[1,,2,3,4]', /made of FP64/],
    ['[1 2,3,4,5]', /made of FP64/],
    ['[1,2,3,04]', /not of 04/],
    ['[1,2,3,4.]', /not of 4\./],
    ['[1,2,3,.4]', /not of \.4/],
    ['[1,2,3,+4]', /not of \+4/],
    ['[1,2,3,4e]', /not of 4e/],
    ['[1,2,3,-]    ', /not of -/],
    ['[1,2,3,NaN]', /not of NaN/],
    ['[1,2,3,0x4]', /made of FP64/],
    ['[1,2,3,"4"]', /not of "4"/],
    ['[1,2,3,null]', /not of null/],
    ['[1,2,3,true]', /not of true/],
    [`[1,2,3,"${'x'.repeat(10_000)}"]`, /not of "x{10,30}$/],
  ])('refuses %s', async (text, reason) => {
    await expect(read(text, [2, 2])).rejects.toThrow(reason);
  });

  it('lets the event loop run', async () => {
    const count = 2_000_000;
    const list = Buffer.from(`[${'1.5,'.repeat(count - 1)}1.5]`);
    let turns = 0;
    const counting = setInterval(() => turns++, 0);
    const data = await readJsonData('x', 'float32', [count], list);
    clearInterval(counting);
    expect(data).toHaveLength(count);
    expect(turns).toBeGreaterThan(2);
  });
});
