import { expect, it } from 'vitest';
import { checkHeaders } from '../../../src/base/http/request-headers.js';

it('are a frozen copy in lower case', () => {
  const given = { Authorization: 'Bearer x', 'X-Key': 'ü' };
  const headers = checkHeaders('headers', given);
  expect(headers).toEqual({ authorization: 'Bearer x', 'x-key': 'ü' });
  expect(Object.isFrozen(headers)).toBe(true);
});

it.each([
  { 'x-key': 'secret\r\nx: y' },
  { 'x-key': 'secret\n' },
  { 'x-key': 'secret\0' },
  { 'x-key': 'secret\u{1f600}' },
  { 'x-key': 5 },
  { 'x key': 'secret' },
  { '': 'secret' },
  { 'x\r\n': 'secret' },
  { host: 'secret' },
  { Range: 'secret' },
  { 'Content-Length': 'secret' },
  { 'x-key': 'secret', 'X-KEY': 'secret' },
  'secret',
  ['secret'],
  new Map([['x', 'secret']]),
])('%j are refused, and no value is shown', (given) => {
  expect(() => checkHeaders('headers', given)).toThrow(/option "headers/);
  expect(() => checkHeaders('headers', given)).not.toThrow(/secret/);
});
