/** Requests as plain clients send them: half-closed, compressed, base64 with line breaks, forms with parts that a parser skips. */
import { connect } from 'node:net';
import { deflateSync, gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { PartCount } from '../../../src/products/serve/bodies/count-parts.js';
import { cleanUpServices, photo, refusalOf, startService, type EmbedReply } from '../../support/service.js';

cleanUpServices();
const IMAGE = photo('sea/sea-0.jpg');
let url: string;
let expected: number[];

const json = (body: object | string): string => (typeof body === 'string' ? body : JSON.stringify(body));
const post = (
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string>,
): Promise<Response> => fetch(`${url}${path}`, { method: 'POST', body, headers });

beforeAll(async () => {
  ({ url } = await startService());
  const response = await post('/embed', IMAGE, { 'content-type': 'image/jpeg' });
  expected = ((await response.json()) as EmbedReply).results[0]!.features!['v']!;
});

/** A form of parts with the given headers, each with the same image. */
function formOf(...heads: readonly string[]): Buffer<ArrayBuffer> {
  const parts = heads.map((head) =>
    Buffer.concat([Buffer.from(`--XX\r\n${head}\r\n\r\n`), IMAGE, Buffer.from('\r\n')]),
  );
  return Buffer.from(Buffer.concat([...parts, Buffer.from('--XX--\r\n')]));
}

const GOOD = 'Content-Disposition: form-data; name="image"; filename="good.jpg"\r\nContent-Type: image/jpeg';
const sendForm = (...heads: readonly string[]): Promise<Response> =>
  post('/embed', formOf(...heads), { 'content-type': 'multipart/form-data; boundary=XX' });

describe('a form', () => {
  it.each([
    ['no disposition', 'X-Foo: bar'],
    ['another disposition', 'Content-Disposition: attachment; name="image"; filename="b.jpg"'],
    ['a bare line break in a name', 'Content-Disposition: form-data; name="image"; filename="a\rb.jpg"'],
    ['no name', 'Content-Disposition: form-data'],
  ])('is refused for a part that its parser skips: %s', async (_what, head) => {
    const response = await sendForm(GOOD, head);
    expect(await refusalOf(response)).toEqual([400, 'REQUEST_INVALID']);
  });

  it('is read with all of its parts, whatever their names', async () => {
    const heads = ['a b.jpg', 'é.jpg', 'x'.repeat(2000)].map((name) => GOOD.replace('good.jpg', name));
    const { results } = (await (await sendForm(GOOD, ...heads)).json()) as EmbedReply;
    expect(results.map(({ features }) => features!['v'])).toEqual([expected, expected, expected, expected]);
  });

  it('has its parts counted however its bytes are cut', () => {
    const body = formOf(GOOD, 'X-Foo: bar', GOOD);
    for (const size of [1, 2, 3, 5, 7, 100, body.length]) {
      const count = new PartCount('XX');
      for (let at = 0; at < body.length; at += size) count.add(body.subarray(at, at + size));
      expect(count.parts).toBe(3);
    }
  });

  it('is not read compressed', async () => {
    const headers = { 'content-type': 'multipart/form-data; boundary=XX', 'content-encoding': 'gzip' };
    const response = await post('/embed', gzipSync(formOf(GOOD)), headers);
    expect(await refusalOf(response)).toEqual([415, 'MEDIA_TYPE_UNSUPPORTED']);
  });
});

describe('a compressed body', () => {
  it.each([
    ['/embed', 'image/jpeg', () => IMAGE],
    ['/embed', 'application/json', () => json({ image: IMAGE.toString('base64') })],
    [
      '/v1/embeddings',
      'application/json',
      () => json({ model: 'tiny', input: `data:image/jpeg;base64,${IMAGE.toString('base64')}` }),
    ],
  ] as const)('is read by %s as %s', async (path, type, make) => {
    for (const [encoding, pack] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
    ] as const) {
      const body = make();
      const headers = { 'content-type': type, 'content-encoding': encoding };
      const plain = await post(path, body, { 'content-type': type });
      const packed = await post(path, pack(body), headers);
      expect(packed.status).toBe(200);
      expect(await packed.json()).toEqual(await plain.json());
    }
  });

  it('is refused where it is damaged, and in an encoding that is not known', async () => {
    const headers = { 'content-type': 'image/jpeg' };
    const damaged = await post('/embed', IMAGE, { ...headers, 'content-encoding': 'gzip' });
    expect(await refusalOf(damaged)).toEqual([400, 'REQUEST_INVALID']);
    const brotli = await post('/embed', IMAGE, { ...headers, 'content-encoding': 'br' });
    expect(await refusalOf(brotli)).toEqual([415, 'MEDIA_TYPE_UNSUPPORTED']);
  });
});

it('takes base64 with line breaks, as MIME and base64(1) write it, and as a data URI; refuses other characters', async () => {
  const lines = IMAGE.toString('base64').replaceAll(/.{76}/g, '$&\r\n');
  const type = { 'content-type': 'application/json' };
  for (const image of [
    `${lines}\n`,
    `data:image/jpeg;base64,${IMAGE.toString('base64').replace(/=+$/, '')}`,
  ]) {
    const { results } = (await (await post('/embed', json({ image }), type)).json()) as EmbedReply;
    expect(results[0]!.features!['v']).toEqual(expected);
  }
  expect(await refusalOf(await post('/embed', json({ image: `${lines}!` }), type))).toEqual([
    400,
    'REQUEST_INVALID',
  ]);
});

/** Sends a request in one write, closes the writing side at once, and reads until the end. */
function halfClosed(version: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true }, () => {
      const head = `POST /embed HTTP/${version}\r\nHost: x\r\nContent-Type: image/jpeg\r\nContent-Length: ${IMAGE.length}\r\nConnection: close\r\n\r\n`;
      socket.end(Buffer.concat([Buffer.from(head), IMAGE]));
    });
    let answer = '';
    socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    socket.on('error', reject).on('end', () => resolve(answer));
  });
}

it.each(['1.1', '1.0'])('answers a client that closes its writing side, in HTTP %s', async (version) => {
  const answer = await halfClosed(version);
  const [, body] = /HTTP\/1\.1 200 OK.*?\r\n\r\n(.*)$/s.exec(answer) ?? [];
  expect(body, answer.slice(0, 200)).toContain(JSON.stringify(expected[0]));
  if (version === '1.0') expect(answer.startsWith('HTTP/1.1 200')).toBe(true);
});
