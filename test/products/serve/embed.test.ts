/** `/embed` of a real service: the same features as without it, and an answer to everything that is not right. */
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { embedImages } from 'onnx-tapir';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readNpy } from '../../support/npy.js';
import { scratchFolder } from '../../support/fixtures.js';
import { cleanUpServices, photo, postImage, refusalOf, SMALL, startService } from '../../support/service.js';
import type { EmbedReply } from '../../support/service.js';

cleanUpServices();
const PHOTOS = ['city/city-0.jpg', 'dunes/dunes-1.jpg', 'sea/sea-2.jpg', 'flower/flower-0.jpg'];
const scratch = scratchFolder();
let url: string;
let expected: Float32Array[];

beforeAll(async () => {
  const started = await startService();
  ({ url } = started);
  expected = [];
  for await (const { features } of embedImages(started.extractor, PHOTOS.map(photo), { transform: SMALL }))
    expected.push(features!.v.data as Float32Array);
});

function form(
  files: readonly (readonly [name: string, bytes: Uint8Array<ArrayBuffer> | string])[],
): FormData {
  const data = new FormData();
  for (const [name, bytes] of files) data.append('image', new Blob([bytes]), name);
  return data;
}

const post = (body: FormData | string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${url}/embed`, { method: 'POST', body, headers });

describe('POST /embed', () => {
  it.each(['image/jpeg', 'image/anything', 'application/octet-stream'])(
    'takes %s, bit for bit',
    async (type) => {
      const response = await postImage(url, photo(PHOTOS[0]!), { headers: { 'content-type': type } });
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
      const reply = (await response.json()) as EmbedReply;
      expect(reply).toMatchObject({
        model: 'tiny',
        outputs: [{ name: 'v', dtype: 'float32', dims: [128] }],
        results: [{ index: 0 }],
      });
      expect(Float32Array.from(reply.results[0]!.features!['v']!)).toEqual(expected[0]);
    },
  );

  it('takes a form of files, in their order, with their names', async () => {
    const response = await post(form(PHOTOS.map((name) => [name.slice(name.indexOf('/') + 1), photo(name)])));
    expect(response.status).toBe(200);
    const { results } = (await response.json()) as EmbedReply;
    expect(results.map(({ index, name }) => [index, name])).toEqual([
      [0, 'city-0.jpg'],
      [1, 'dunes-1.jpg'],
      [2, 'sea-2.jpg'],
      [3, 'flower-0.jpg'],
    ]);
    const rows = results.map(({ features }) => Float32Array.from(features!['v']!));
    expect(rows).toEqual(expected);
  });

  it('sends the bytes of a .npy file for one image and one output', async () => {
    for (const accept of ['application/x-npy', 'application/octet-stream', 'application/x-npy, */*']) {
      const response = await postImage(url, photo(PHOTOS[1]!), { headers: { accept } });
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-npy']);
      const path = join(scratch, 'one.npy');
      writeFileSync(path, Buffer.from(await response.arrayBuffer()));
      const { dims, data } = readNpy(path);
      expect(dims).toEqual([128]);
      expect(data).toEqual(expected[1]);
    }
  });

  it('says in JSON what an image fails with among others, and goes on', async () => {
    const response = await post(
      form([
        ['a.jpg', photo(PHOTOS[0]!)],
        ['b.jpg', 'no image'],
        ['c.jpg', photo(PHOTOS[1]!)],
      ]),
    );
    expect(response.status).toBe(200);
    const { results } = (await response.json()) as EmbedReply;
    expect(results[1]).toMatchObject({ index: 1, name: 'b.jpg', error: { code: 'IMAGE_UNREADABLE' } });
    expect(results[1]!.features).toBeUndefined();
    expect([results[0]!.features!['v']!.length, results[2]!.features!['v']!.length]).toEqual([128, 128]);
  });

  it('refuses a single image that cannot be read', async () => {
    expect(await refusalOf(await postImage(url, Buffer.from('no image')))).toEqual([422, 'IMAGE_UNREADABLE']);
    const cut = photo(PHOTOS[0]!).subarray(0, 2000);
    expect(await refusalOf(await postImage(url, cut))).toEqual([422, 'IMAGE_TRUNCATED']);
    expect(await refusalOf(await post(form([['a.jpg', 'no image']])))).toEqual([422, 'IMAGE_UNREADABLE']);
  });

  it('refuses an image that claims to be vast, from its header', async () => {
    expect(await refusalOf(await postImage(url, bomb()))).toEqual([413, 'IMAGE_TOO_LARGE']);
  });

  it('refuses other methods, types and forms', async () => {
    const get = await fetch(`${url}/embed`);
    expect([...(await refusalOf(get)), get.headers.get('allow')]).toEqual([
      405,
      'METHOD_NOT_ALLOWED',
      'POST',
    ]);
    expect(await refusalOf(await post('x', { 'content-type': 'text/plain' }))).toEqual([
      415,
      'MEDIA_TYPE_UNSUPPORTED',
    ]);
    const bare = await fetch(`${url}/embed`, { method: 'POST' });
    expect(await refusalOf(bare)).toEqual([415, 'MEDIA_TYPE_UNSUPPORTED']);
    const packed = postImage(url, photo(PHOTOS[0]!), { headers: { 'content-encoding': 'br' } });
    expect(await refusalOf(await packed)).toEqual([415, 'MEDIA_TYPE_UNSUPPORTED']);
    expect(await refusalOf(await postImage(url, Buffer.alloc(0)))).toEqual([400, 'REQUEST_INVALID']);
    const html = postImage(url, photo(PHOTOS[0]!), { headers: { accept: 'text/html' } });
    expect(await refusalOf(await html)).toEqual([406, 'NOT_ACCEPTABLE']);
    const two = fetch(`${url}/embed`, {
      method: 'POST',
      body: form([
        ['a.jpg', photo(PHOTOS[0]!)],
        ['b.jpg', photo(PHOTOS[1]!)],
      ]),
      headers: { accept: 'application/x-npy' },
    });
    expect(await refusalOf(await two)).toEqual([406, 'NOT_ACCEPTABLE']);
  });

  it('refuses forms that are damaged, empty, or hold other things', async () => {
    const type = 'multipart/form-data; boundary=edge';
    const head = '--edge\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n';
    for (const body of [
      '',
      'rubbish',
      '--edge--\r\n',
      `${head}half of an ima`,
      `${head}whole\r\n--edge\r\nContent-Disp`,
      '--edge\r\nContent-Disposition: form-data; name="size"\r\n\r\n3\r\n--edge--\r\n',
      '--edge\r\nContent-Disposition: form-data; name="__proto__"; filename="a"\r\n\r\n3\r\n--edge--\r\n',
    ])
      expect(await refusalOf(await post(body, { 'content-type': type })), body).toEqual([
        400,
        'REQUEST_INVALID',
      ]);
    const noBoundary = await post('x', { 'content-type': 'multipart/form-data' });
    expect(await refusalOf(noBoundary)).toEqual([400, 'REQUEST_INVALID']);
    // The connection and the service are as they were.
    expect((await postImage(url, photo(PHOTOS[0]!))).status).toBe(200);
  });

  it('takes images in base64', async () => {
    const headers = { 'content-type': 'application/json' };
    const texts = PHOTOS.map((name) => photo(name).toString('base64'));
    const one = (await (await post(JSON.stringify({ image: texts[0] }), headers)).json()) as EmbedReply;
    expect(one.results.map(({ features }) => Float32Array.from(features!['v']!))).toEqual([expected[0]]);
    const all = (await (await post(JSON.stringify({ images: texts }), headers)).json()) as EmbedReply;
    expect(all.results.map(({ features }) => Float32Array.from(features!['v']!))).toEqual(expected);
    for (const body of [
      {},
      { image: '' },
      { image: 'no base64!' },
      { image: 1 },
      { images: [] },
      { images: ['%'] },
      { image: texts[0], images: texts },
      { image: texts[0], size: 3 },
      { photo: texts[0] },
    ])
      expect(
        await refusalOf(await post(JSON.stringify(body), headers)),
        JSON.stringify(body).slice(0, 80),
      ).toEqual([400, 'REQUEST_INVALID']);
    const saysOf = async (body: string): Promise<string> => {
      const { error } = (await (await post(body, headers)).json()) as { error: { message: string } };
      return error.message;
    };
    expect(await saysOf('{"img":"AAAA"}')).toBe(
      'body has no field "img"; send "image" or "images" or "urls"',
    );
    expect(await saysOf('{}')).toBe('body is empty; send "image" or "images" or "urls"');
    expect(await saysOf('{"image":"AAAA","urls":["http://a.b/c.jpg"]}')).toMatch(
      /^body has several fields; send one of them: "image"/,
    );
    expect(await saysOf('{"image":1}')).toBe('body/image must be string');
    expect(await saysOf('')).toMatch(/: it is empty; \/openapi.json says/);
    const wrong = post(JSON.stringify({ image: Buffer.from('no image').toString('base64') }), headers);
    expect(await refusalOf(await wrong)).toEqual([422, 'IMAGE_UNREADABLE']);
    const many = post(JSON.stringify({ images: Array.from({ length: 65 }, () => 'AAAA') }), headers);
    expect(await refusalOf(await many)).toEqual([413, 'TOO_MANY_IMAGES']);
  });

  it('fetches no URLs unless told to', async () => {
    const body = JSON.stringify({ urls: ['http://example.com/a.jpg'] });
    expect(await refusalOf(await post(body, { 'content-type': 'application/json' }))).toEqual([
      403,
      'URLS_DISABLED',
    ]);
    expect(await refusalOf(await post('{', { 'content-type': 'application/json' }))).toEqual([
      400,
      'REQUEST_INVALID',
    ]);
  });
});

/** A PNG of a few bytes that declares 20 000 × 20 000 pixels. */
function bomb(): Buffer<ArrayBuffer> {
  const header = Buffer.from(
    '89504e470d0a1a0a0000000d4948445200004e2000004e200802000000000000000000000049444154',
    'hex',
  );
  return Buffer.from(header);
}

describe('POST /embed with URLs', () => {
  let files: string;
  let fetching: string;
  const seen: string[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url!;
    seen.push(path);
    const redirect = /^\/redirect\/(\d+)$/.exec(path);
    if (redirect) {
      const left = Number(redirect[1]);
      response.writeHead(302, { location: left === 0 ? '/photo' : `/redirect/${left - 1}` }).end();
    } else if (path === '/photo') response.end(photo(PHOTOS[0]!));
    else if (path === '/file') response.writeHead(302, { location: 'file:///etc/passwd' }).end();
    else if (path === '/large') response.writeHead(200, { 'content-length': 1e9 }).write('x');
    else if (path === '/endless') {
      const timer = setInterval(() => response.write(Buffer.alloc(64 * 1024)), 1);
      response.on('close', () => clearInterval(timer));
    } else if (path !== '/silent') response.writeHead(404).end();
  });

  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    files = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const options = { allowUrls: true, urlTimeoutMs: 2000, maxBodyBytes: 2 ** 20, maxImages: 8 };
    fetching = (await startService({ ...options, allowPrivateUrls: true })).url;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const postUrls = (to: string, urls: unknown): Promise<Response> =>
    fetch(`${to}/embed`, {
      method: 'POST',
      body: JSON.stringify({ urls }),
      headers: { 'content-type': 'application/json' },
    });
  const codesOf = async (response: Response): Promise<(string | number)[]> =>
    ((await response.json()) as EmbedReply).results.map(
      ({ error, features }) => error?.code ?? features!['v']!.length,
    );

  it('embeds what it fetches, under its URL', async () => {
    const { results } = (await (
      await postUrls(fetching, [`${files}/photo`, `${files}/redirect/4`])
    ).json()) as EmbedReply;
    expect(results.map(({ name }) => name)).toEqual([`${files}/photo`, `${files}/redirect/4`]);
    expect(results[0]!.features!['v']).toEqual(results[1]!.features!['v']);
    expect(Math.hypot(...results[0]!.features!['v']!)).toBeGreaterThan(0);
  });

  it('gives up on what is missing, late, large, or sends it about', async () => {
    const urls = ['/missing', '/silent', '/large', '/redirect/5', '/file', '/photo'].map(
      (path) => files + path,
    );
    expect(await codesOf(await postUrls(fetching, urls))).toEqual([
      'URL_FAILED',
      'URL_FAILED',
      'URL_FAILED',
      'URL_FAILED',
      'URL_REFUSED',
      128,
    ]);
    expect(await refusalOf(await postUrls(fetching, [`${files}/missing`]))).toEqual([422, 'URL_FAILED']);
    expect(await refusalOf(await postUrls(fetching, [`${files}/endless`]))).toEqual([413, 'BODY_TOO_LARGE']);
  });

  it('refuses what is no list of URLs', async () => {
    for (const urls of [[], 'http://a/', [1], [''], null])
      expect(await refusalOf(await postUrls(fetching, urls))).toEqual([400, 'REQUEST_INVALID']);
    const many = Array.from({ length: 9 }, () => `${files}/photo`);
    expect(await refusalOf(await postUrls(fetching, many))).toEqual([413, 'TOO_MANY_IMAGES']);
  });

  it('connects to no private address, however it is written', async () => {
    const { url: careful } = await startService({ allowUrls: true });
    const { port } = server.address() as AddressInfo;
    seen.length = 0;
    const urls = [
      `http://127.0.0.1:${port}/photo`,
      `http://localhost:${port}/photo`,
      `http://2130706433:${port}/photo`,
      `http://0x7f.1:${port}/photo`,
      `http://[::1]:${port}/photo`,
      `http://[::ffff:127.0.0.1]:${port}/photo`,
      'http://169.254.169.254/latest/meta-data',
      'http://10.0.0.1/',
      'file:///etc/passwd',
      'http://user:secret@example.com/',
      'no url',
    ];
    for (const one of urls)
      expect(await refusalOf(await postUrls(careful, [one])), one).toEqual([403, 'URL_REFUSED']);
    expect(seen).toEqual([]);
  });
});
