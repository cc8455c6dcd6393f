/** Options as one text. */
import { expect, it } from 'vitest';
import { splitKeyValues } from '../../src/base/key-values.js';

it.each([
  ['512,overlap=64,min-std=8', '512', { overlap: '64', 'min-std': '8' }],
  ['mean=0.5,0.5,0.5,std=1,1,1', undefined, { mean: '0.5,0.5,0.5', std: '1,1,1' }],
  ['my=dir/config.json', undefined, { my: 'dir/config.json' }],
  ['a.json,size=448x672', 'a.json', { size: '448x672' }],
  ['key=', undefined, { key: '' }],
])('splits %s', (text, lead, values) => {
  const found = splitKeyValues(text)!;
  expect([found.lead, Object.fromEntries(found.values)]).toEqual([lead, values]);
});

it.each(['512', '', 'a,b,c=1', '{"a":1}', '1,2,3'])('leaves %s whole', (text) => {
  expect(splitKeyValues(text)).toBeUndefined();
});
