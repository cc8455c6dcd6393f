import { expect, it } from 'vitest';
import { readBase64 } from '../../src/base/read-base64.js';

it.each([1, 2, 3, 4, 5])('reads %i bytes in each form that clients send', (count) => {
  const bytes = Buffer.from([255, 0, 7, 128, 62]).subarray(0, count);
  const text = bytes.toString('base64');
  const bare = text.replace(/=+$/, '');
  const uri = 'data:image/jpeg;base64,';
  for (const given of [
    text,
    bare,
    uri + text,
    `data:image/svg+xml;charset=utf-8;base64,${bare}`,
    `\n${uri}\r\n${text}\n`,
  ])
    expect(readBase64(given), given).toEqual(bytes);
});

it.each([
  '!!!',
  'A',
  'AAAAA',
  'AAA!',
  'AA=',
  'AAAA=',
  'A===',
  'AAAA====',
  'AA==AA==',
  'data:text/plain;base64,AAAA',
  'data:image/png,AAAA',
  'https://a.b/c.jpg',
  'photo.jpg',
])('refuses %s', (given) => expect(readBase64(given)).toBeUndefined());
