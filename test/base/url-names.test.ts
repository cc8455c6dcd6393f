/** What of a URL names a photo. */
import { describe, expect, it } from 'vitest';
import { hideSecrets, hideSecretsOfJson, nameOfUrl } from '../../src/base/url-names.js';

const S3 =
  'X-Amz-Algorithm=A&X-Amz-Credential=k%2F1&X-Amz-Date=2&X-Amz-Expires=9&X-Amz-SignedHeaders=host;range&X-Amz-Signature=s';
const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ.c2VjcmV0';

describe('the name of a URL', () => {
  it.each([
    [`https://b.s3.amazonaws.com/a%20b.jpg?${S3}&x-id=GetObject`, 'https://b.s3.amazonaws.com/a%20b.jpg'],
    [`https://h/a.jpg?versionId=3&${S3}`, 'https://h/a.jpg?versionId=3'],
    ['https://h/a?AWSAccessKeyId=k&Signature=s%3D&Expires=17', 'https://h/a'],
    ['https://h/a?X-Goog-Credential=c&X-Goog-Signature=s&generation=4', 'https://h/a?generation=4'],
    ['https://h/a?GoogleAccessId=c&Expires=1&Signature=s', 'https://h/a'],
    [
      'https://h/a?sv=2&st=1&se=2&sr=b&sp=r&spr=https&sip=1&skoid=1&sktid=2&skt=1&ske=2&sks=b&skv=2&sig=s&snapshot=9',
      'https://h/a?snapshot=9',
    ],
    ['https://h/a?Policy=p&Key-Pair-Id=K&Signature=s~_&w=3', 'https://h/a?w=3'],
    [
      'https://h/a?OSSAccessKeyId=k&Expires=1&Signature=s&x-oss-process=image/resize',
      'https://h/a?x-oss-process=image/resize',
    ],
    ['https://h/a?q-sign-algorithm=sha1&q-ak=k&q-key-time=1;2&q-signature=s', 'https://h/a'],
    ['https://h/a?temp_url_sig=s&temp_url_expires=1', 'https://h/a'],
    ['https://h/a?id=5&access_token=t&api_key=k', 'https://h/a?id=5'],
    ['https://h/a?id=5;token=t', 'https://h/a?id=5'],
    ['https://h/a?ex=1&is=2&hm=3&', 'https://h/a'],
    ['https://h/a?%58-Amz-Signature=s#access_token=t', 'https://h/a'],
    ['https://h/a?sig=a?b=c', 'https://h/a'],
    [`https://h/a?v=${JWT}`, 'https://h/a'],
    ['https://user:p@ss@h/a.jpg', 'https://h/a.jpg'],
    ['https://proxy/https://user:pass@h/a.jpg?sig=s', 'https://proxy/https://h/a.jpg'],
    [
      'https://p/i?url=https%3A%2F%2Fh%2Fa%3Fv%3D2%26sig%3Ds&w=3',
      'https://p/i?url=https%3A%2F%2Fh%2Fa%3Fv%3D2&w=3',
    ],
    ['S3://b/k?x-amz-signature=s', 'S3://b/k'],
  ])('%s is %s', (url, name) => {
    expect(nameOfUrl(url)).toBe(name);
    expect(nameOfUrl(name)).toBe(name);
  });

  // Nothing of these is a credential without a signature beside it.
  it.each([
    'https://h/a?id=5&se=3&sp=r&e=1&policy=x&exp=7',
    'https://h/a@b.jpg?key=a/b.jpg#x',
    'https://h/a?',
    'a.jpg?token=5',
    'C:\\a',
    '',
  ])('%s stays as it is', (text) => expect(nameOfUrl(text)).toBe(text));

  it('keeps what could number photos, or is the path alone, if that is asked for', () => {
    expect(nameOfUrl('https://h/a?token=5&X-Amz-Signature=s', 'url')).toBe('https://h/a?token=5');
    expect(nameOfUrl('https://user@h:8/b/a%20b.jpg?id=5', 'path')).toBe('b/a%20b.jpg');
  });
});

it('hides credentials in sentences and in JSON, and changes nothing else', () => {
  expect(hideSecrets('see <https://u:p@h/a?sig=s> and ftp://u:p@h/b')).toBe(
    'see <https://h/a> and ftp://h/b',
  );
  expect(hideSecrets('https://h/a b.jpg?sig=s')).toBe('https://h/a b.jpg');
  expect(hideSecrets('https://h/a?sig=s is it, e.g. token=5')).toBe('https://h/a is it, e.g. token=5');
  const prose = 'https://h is a site; ask me@x.org? token=5';
  expect(hideSecrets(prose)).toBe(prose);
  const json = String.raw`{"n":1.0,"big":12345678901234567890,"u":["https:\/\/h\/a?id=1\u0026sig=s","x\n\"y"]}`;
  expect(hideSecretsOfJson(json)).toBe(
    String.raw`{"n":1.0,"big":12345678901234567890,"u":["https://h/a?id=1","x\n\"y"]}`,
  );
  expect(hideSecrets(`see ${'x'.repeat(2 ** 20)} https://h/a?sig=s`)).toMatch(/x https:\/\/h\/a$/);
  expect(nameOfUrl('https://h/?u='.repeat(2 ** 16))).toMatch(/^[^s]*https:/);
  expect(hideSecretsOfJson(`"${'x'.repeat(2 ** 22)}://h?sig=s"`)).toHaveLength(2 ** 22 + 6);
});
