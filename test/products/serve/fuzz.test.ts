/** Requests that are damaged in every way: each one gets an answer, no answer blames the service, and it goes on. */
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { cleanUpServices, photo, postImage, startService } from '../../support/service.js';
import { rounds } from '../../support/rounds.js';

cleanUpServices();
const REQUESTS = rounds(1000, 6000);
const AT_ONCE = 64;
const SEED = 14;

const image = photo('city/city-0.jpg');

interface Template {
  readonly path: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

function templates(): Template[] {
  const post = (path: string, type: string, body: Buffer | string, more = {}): Template => ({
    path,
    method: 'POST',
    headers: { 'Content-Type': type, ...more },
    body: Buffer.from(body as string),
  });
  const base64 = image.toString('base64');
  const uri = `data:image/jpeg;base64,${base64}`;
  const vectors = '/v1/embeddings';
  const form =
    '--edge\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n' +
    `${image.toString('latin1')}\r\n--edge--\r\n`;
  const get = (path: string): Template => ({ path, method: 'GET', headers: {}, body: Buffer.alloc(0) });
  return [
    post('/embed', 'image/jpeg', image),
    post('/embed', 'application/json', JSON.stringify({ image: base64 })),
    post('/embed', 'application/json', JSON.stringify({ urls: ['http://127.0.0.1/a.jpg'] })),
    post('/embed', 'multipart/form-data; boundary=edge', Buffer.from(form, 'latin1')),
    post('/embed', 'application/octet-stream', image),
    post('/classify?top=3', 'image/jpeg', image),
    post(
      vectors,
      'application/json',
      JSON.stringify({ model: 'tiny', input: uri, encoding_format: 'base64' }),
    ),
    post(
      vectors,
      'application/json',
      JSON.stringify({ model: 'tiny', input: [{ image: base64 }, { image: uri }] }),
    ),
    post(vectors, 'application/json', JSON.stringify({ input: ['two cats'], dimensions: 128 })),
    get('/v1/models/tiny'),
    get('/health/ready'),
    get('/v2/models/tiny'),
    get('/openapi.json'),
  ];
}

const TOKENS = [
  '[',
  ']',
  '{',
  '}',
  '"',
  ',',
  ':',
  '\\',
  'null',
  '-0',
  '1e999',
  '\0',
  '%00',
  '../',
  '__proto__',
  '\u202e',
  '[[[[',
  '{}',
  '64',
  '-1',
  '4294967296',
];

/** Damages a request in one to four ways. */
function damage({ path, method, headers, body }: Template, random: () => number): string | Buffer {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!;
  const place = (length: number): number => Math.floor(random() * (length + 1));
  let target = path;
  let verb = method;
  let bytes: Buffer = body;
  let length: number | undefined;
  const lines = new Map(Object.entries({ Host: 'a', Connection: 'close', ...headers }));
  const splice = (from: number, to: number, inserted: Buffer): void => {
    bytes = Buffer.concat([bytes.subarray(0, from), inserted, bytes.subarray(to)]);
  };
  const ways: (() => void)[] = [
    () => splice(place(bytes.length), bytes.length, Buffer.alloc(0)),
    () => {
      const at = place(bytes.length);
      splice(at, at, Buffer.from(pick(TOKENS)));
    },
    () => {
      const at = place(bytes.length);
      splice(at, Math.min(bytes.length, at + place(40)), Buffer.alloc(0));
    },
    () => {
      bytes = Buffer.from(bytes);
      for (let i = place(8); i >= 0; i--) if (bytes.length > 0) bytes[place(bytes.length - 1)] = place(255);
    },
    () => {
      const at = place(bytes.length);
      splice(at, at, Buffer.from(pick(TOKENS).repeat(place(3000))));
    },
    () =>
      lines.set(
        pick([...lines.keys()]),
        pick([
          '',
          'x',
          '-1',
          '99999999999',
          'gzip',
          'application/json',
          'image/png',
          'multipart/form-data',
          ...TOKENS,
        ]).replace(/[\0\u202e]/g, '?'),
      ),
    () => lines.set('Content-Encoding', pick(['gzip', 'deflate', 'br', 'identity'])),
    () => lines.set('Accept', pick(['application/x-npy', 'text/html', '*/*;q=x', ''])),
    () => {
      length = Math.max(0, bytes.length - place(50));
    },
    () => {
      verb = pick(['GET', 'POST', 'PUT', 'HEAD', 'OPTIONS']);
    },
    () => {
      target += pick(['?a=b', '/', '/x', '%zz', '%00', '/../..', '#', '?'.repeat(2000)]);
    },
    () => {
      target = target.replace('tiny', pick(['large', 'tiny%20', 'a'.repeat(200), '..']));
    },
  ];
  for (let i = place(3); i >= 0; i--) pick(ways)();
  const head = [...lines].map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.concat([
    Buffer.from(`${verb} ${target} HTTP/1.1\r\n${head}Content-Length: ${length ?? bytes.length}\r\n\r\n`),
    bytes,
  ]);
}

/** Sends bytes; resolves with what came back once the service has ended the connection. */
function send(url: string, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(text));
    socket.write(bytes);
  });
}

describe('damaged requests', () => {
  it(`gives an answer to each of ${REQUESTS}, and never blames itself`, { timeout: 600_000 }, async () => {
    const faults: unknown[] = [];
    const { url } = await startService({
      onError: (error) => faults.push(error),
      requestTimeoutMs: 400,
      keepAliveTimeoutMs: 200,
    });
    const random = createRandom(SEED);
    const all = templates();
    const statuses = new Map<number, number>();
    let sent = 0;
    const work = async (): Promise<void> => {
      while (sent < REQUESTS) {
        const bytes = damage(all[sent++ % all.length]!, random);
        const answer = await send(url, bytes);
        const shown = `${String(bytes)
          .replace(/(.)\1{9,}/g, '$1…')
          .slice(0, 400)}\n→ ${answer.slice(0, 400)}`;
        const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1] ?? 0);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        expect(status, shown).toBeGreaterThanOrEqual(200);
        expect(status, shown).not.toBe(500);
        if (status >= 400 && !String(bytes).startsWith('HEAD'))
          expect(answer, shown).toMatch(/\{"error":\{"(?:code|message)":"/);
        expect(answer, shown).not.toMatch(/node_modules|\.js:\d/);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(faults).toEqual([]);
    expect((await postImage(url, image)).status).toBe(200);
    // The damage is neither hopeless nor harmless.
    expect(statuses.get(200)).toBeGreaterThan(REQUESTS / 20);
    expect(statuses.get(400)).toBeGreaterThan(REQUESTS / 20);
    expect(statuses.size).toBeGreaterThan(6);
  });
});
