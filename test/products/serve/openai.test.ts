/** `/v1/embeddings` of a real service, asked by OpenAI's own client. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import OpenAI, { APIError } from 'openai';
import { createFeatureExtractor, createTransform, embedImages } from 'onnx-tapir';
import { createTextEncoder, type TextTower } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';
import { cleanUpServices, openSmall, openSmallWithMap, photo, serve, SMALL } from '../../support/service.js';
import { writeHuggingFacePair } from '../../support/text-models.js';

const scratch = scratchFolder();
const PHOTOS = ['city/city-0.jpg', 'dunes/dunes-1.jpg', 'sea/sea-2.jpg'].map(photo);
const TEXTS = ['a dog on grass', 'two cats', 'ein Haus am Meer'];
const base64 = (bytes: Buffer): string => bytes.toString('base64');
const dataUri = (bytes: Buffer): string => `data:image/jpeg;base64,${base64(bytes)}`;
const clientOf = (url: string, apiKey = 'none'): OpenAI =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });

/** In double precision, rounded once. */
function unitOf(vector: Float32Array): Float32Array {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return vector.map((value) => value / norm);
}

let tower: TextTower;
/** A service with both towers of a small CLIP. */
let both: string;
/** A service without a text tower: vectors of 128. */
let images: string;
let imageVectors: Float32Array[];
let textVectors: Float32Array[];

beforeAll(async () => {
  writeHuggingFacePair(join(scratch, 'clip'), 'clip');
  const path = join(scratch, 'clip/onnx/vision_model.onnx');
  const transform = createTransform({ resize: 32, crop: 32 });
  const extractor = await createFeatureExtractor(path, [['tensor:image_embeds', 'embedding']]);
  tower = await createTextEncoder(path);
  ({ url: both } = await serve(extractor, { transform, name: 'clip', textTower: tower }));
  ({ url: images } = await serve(await openSmall()));
  imageVectors = [];
  for await (const { features } of embedImages(extractor, PHOTOS, { transform }))
    imageVectors.push(unitOf(features!.embedding.data as Float32Array));
  textVectors = (await tower.encode(TEXTS)).map(unitOf);
  afterAll(async () => {
    await extractor.close();
    await tower.close();
  });
});
cleanUpServices();

/** Vectors as the client returns them; it decodes base64 itself. */
async function embed(url: string, body: Record<string, unknown>): Promise<Float32Array[]> {
  const { data } = await clientOf(url).embeddings.create(body as never);
  expect(data.map(({ index }) => index)).toEqual(data.map((_, i) => i));
  return data.map(({ embedding }) => Float32Array.from(embedding));
}

/** What the client throws. */
async function refusal(url: string, body: Record<string, unknown>): Promise<APIError> {
  const error: unknown = await clientOf(url)
    .embeddings.create(body as never)
    .then(
      () => undefined,
      (reason: unknown) => reason,
    );
  if (error instanceof APIError) return error;
  throw new Error(`expected a refusal, got ${String(error)}`);
}

describe('vectors by the official client', () => {
  it.each([undefined, 'float', 'base64'])('texts, with encoding_format %s', async (encoding_format) => {
    const body = { model: 'clip', input: TEXTS, ...(encoding_format ? { encoding_format } : {}) };
    const { data, model, object, usage } = await clientOf(both).embeddings.create(body as never);
    const tokens = TEXTS.reduce((sum, text) => sum + tower.tokenize(text).length, 0);
    expect({ model, object, usage }).toEqual({
      model: 'clip',
      object: 'list',
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    });
    // Asked for base64, the client hands it on.
    const read = ({ embedding }: { embedding: unknown }): Float32Array =>
      typeof embedding === 'string'
        ? new Float32Array(new Uint8Array(Buffer.from(embedding, 'base64')).buffer)
        : Float32Array.from(embedding as number[]);
    // A batch of texts and padding may sum in another order than a batch of three.
    data.map(read).forEach((vector, i) => {
      expect(vector).toHaveLength(textVectors[i]!.length);
      vector.forEach((value, j) => expect(value).toBeCloseTo(textVectors[i]![j]!, 6));
    });
  });

  it('one text without a list', async () => {
    const [vector] = await embed(both, { model: 'clip', input: TEXTS[0] });
    vector!.forEach((value, j) => expect(value).toBeCloseTo(textVectors[0]![j]!, 6));
  });

  it.each([
    ['{ image: base64 }', PHOTOS.map((bytes) => ({ image: base64(bytes) })), {}],
    ['{ image: data URI }', PHOTOS.map((bytes) => ({ image: dataUri(bytes) })), {}],
    ['data URIs as strings', PHOTOS.map(dataUri), {}],
    ['strings of modality image', PHOTOS.map(base64), { modality: 'image' }],
    ['content parts', PHOTOS.map((bytes) => ({ type: 'image_url', image_url: { url: dataUri(bytes) } })), {}],
  ])('images as %s: those of embedImages at length 1, bit for bit', async (_, input, more) => {
    expect(await embed(both, { model: 'clip', input, ...more })).toEqual(imageVectors);
  });

  it('texts and images in one list, in order', async () => {
    const input = [TEXTS[0], { image: base64(PHOTOS[1]!) }, { text: TEXTS[2] }, dataUri(PHOTOS[0]!)];
    const vectors = await embed(both, { model: 'clip', input });
    const expected = [textVectors[0], imageVectors[1], textVectors[2], imageVectors[0]];
    vectors.forEach((vector, i) =>
      vector.forEach((value, j) => expect(value).toBeCloseTo(expected[i]![j]!, 6)),
    );
    vectors.forEach((vector) => expect(Math.hypot(...vector)).toBeCloseTo(1, 6));
  });

  it('cuts vectors to the dimensions that are asked for, then gives them length 1', async () => {
    const input = [TEXTS[0], { image: base64(PHOTOS[1]!) }];
    const cut = await embed(both, { model: 'clip', input, dimensions: 3 });
    const expected = [textVectors[0]!, imageVectors[1]!].map((vector) => unitOf(vector.slice(0, 3)));
    cut.forEach((vector, i) => {
      expect(vector).toHaveLength(3);
      vector.forEach((value, j) => expect(value).toBeCloseTo(expected[i]![j]!, 6));
    });
  });

  it('a chat of one message, as vLLM’s clients send it', async () => {
    const content = [{ type: 'image_url', image_url: { url: dataUri(PHOTOS[2]!) } }];
    const response = await fetch(`${both}/v1/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'clip', messages: [{ role: 'user', content }] }),
    });
    const { data } = (await response.json()) as { data: { embedding: number[] }[] };
    expect(Float32Array.from(data[0]!.embedding)).toEqual(imageVectors[2]);
  });

  it('more texts than a run takes', async () => {
    const vectors = await embed(both, {
      model: 'clip',
      input: Array.from({ length: 100 }, (_, i) => TEXTS[i % 3]),
    });
    expect(vectors).toHaveLength(100);
    vectors.forEach((vector, i) =>
      vector.forEach((value, j) => expect(value).toBeCloseTo(textVectors[i % 3]![j]!, 6)),
    );
  });

  it('lists its models', async () => {
    const { data } = await clientOf(both).models.list();
    expect(data).toMatchObject([{ id: 'clip', object: 'model', owned_by: 'onnx-tapir' }]);
    expect(await clientOf(both).models.retrieve('clip')).toEqual(data[0]);
    await expect(clientOf(both).models.retrieve('other')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });

  it('counts texts and images', async () => {
    const text = await (await fetch(`${both}/metrics`)).text();
    expect(text).toMatch(/tapir_texts_total\{code="ok"\} [1-9]/);
    expect(text).toMatch(/tapir_images_total\{code="ok"\} [1-9]/);
  });
});

describe('outputs', () => {
  it('with a vector and a map, the name stands for the vector', async () => {
    const { url } = await serve(await openSmallWithMap());
    const input = [{ image: base64(PHOTOS[0]!) }];
    const [vector] = await embed(url, { model: 'tiny', input });
    expect(vector).toHaveLength(128);
    expect(await embed(url, { model: 'tiny/v', input })).toEqual([vector]);
    const error = await refusal(url, { model: 'tiny/map', input });
    expect([error.status, error.param]).toEqual([400, 'model']);
    expect(error.message).toContain('pool');
    const client = clientOf(url);
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['tiny', 'tiny/v']);
    expect((await client.models.retrieve('tiny/v')).id).toBe('tiny/v');
  });

  it('with two vectors, the request names one', async () => {
    const small = await openSmall();
    const extractor = await createFeatureExtractor(small.model.source, { avgpool: 'v', fc: 'classes' });
    const { url } = await serve(extractor, { transform: SMALL });
    const input = { image: base64(PHOTOS[0]!) };
    const error = await refusal(url, { model: 'tiny', input });
    expect([error.status, error.param]).toEqual([400, 'model']);
    expect(error.message).toContain('"tiny/v", "tiny/classes"');
    expect((await embed(url, { model: 'tiny/v', input }))[0]).toHaveLength(128);
    await extractor.close();
  });
});

describe('refusals, as the client reads them', () => {
  const image = dataUri(PHOTOS[0]!);
  it.each([
    ['an unknown model', 404, 'model', 'model_not_found', { model: 'other', input: image }],
    ['a text without a tower', 400, 'input.1', 'request_invalid', { model: 'tiny', input: [image, 'a'] }],
    [
      'more dimensions than the vectors have',
      400,
      'dimensions',
      'request_invalid',
      { model: 'tiny', dimensions: 129, input: image },
    ],
    ['a URL', 403, null, 'urls_disabled', { model: 'tiny', input: { image: 'https://example.com/a.jpg' } }],
  ])('%s', async (_, status, param, code, body) => {
    const error = await refusal(images, body);
    expect([error.status, error.param, error.code, error.type]).toEqual([
      status,
      param,
      code,
      'invalid_request_error',
    ]);
  });

  it('names the first image that cannot be read, and why', async () => {
    const bad = { image: base64(Buffer.from('not an image')) };
    const good = { image: base64(PHOTOS[0]!) };
    const error = await refusal(images, { model: 'tiny', input: [good, good, bad, bad] });
    expect([error.status, error.param, error.code]).toEqual([400, 'input.2', 'image_unreadable']);
  });

  it('checks the key if the service has a token', async () => {
    const { url } = await serve(await openSmall(), { token: 'secret' });
    const body = { model: 'tiny', input: dataUri(PHOTOS[0]!) };
    await expect(clientOf(url, 'other').embeddings.create(body)).rejects.toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    expect((await clientOf(url, 'secret').embeddings.create(body)).data).toHaveLength(1);
  });

  it('limits images per request', async () => {
    const { url } = await serve(await openSmall(), { maxImages: 2 });
    const error = await refusal(url, { model: 'tiny', input: PHOTOS.map(dataUri) });
    expect([error.status, error.code]).toEqual([413, 'too_many_images']);
  });

  it('fetches URLs where the service may, and names the one that fails', async () => {
    const files = createServer((request, response) => {
      if (request.url === '/a.jpg') response.end(PHOTOS[0]);
      else response.writeHead(404).end();
    }).listen(0, '127.0.0.1');
    const place = `http://127.0.0.1:${await portOf(files)}`;
    const { url } = await serve(await openSmall(), { allowUrls: true, allowPrivateUrls: true });
    const [byUrl, sent] = await embed(url, {
      model: 'tiny',
      input: [{ image: `${place}/a.jpg` }, dataUri(PHOTOS[0]!)],
    });
    expect(byUrl).toEqual(sent);
    const error = await refusal(url, {
      model: 'tiny',
      input: [dataUri(PHOTOS[0]!), { image: `${place}/b.jpg` }],
    });
    expect([error.status, error.param, error.code]).toEqual([400, 'input.1', 'url_failed']);
    files.close();
    const { url: strict } = await serve(await openSmall(), { allowUrls: true });
    const refused = await refusal(strict, { model: 'tiny', input: { image: `${place}/a.jpg` } });
    expect([refused.status, refused.param, refused.code]).toEqual([400, 'input', 'url_refused']);
  });
});

describe('a text tower that fails', () => {
  it('is an error of the server, and images still work', async () => {
    const path = join(scratch, 'clip/onnx/vision_model.onnx');
    await using extractor = await createFeatureExtractor(path, [['tensor:image_embeds', 'embedding']]);
    const closed = await createTextEncoder(path);
    const transform = createTransform({ resize: 32, crop: 32 });
    const { url } = await serve(extractor, { transform, name: 'clip', textTower: closed });
    await closed.close();
    const error = await refusal(url, { model: 'clip', input: [dataUri(PHOTOS[0]!), 'a'] });
    expect([error.status, error.type, error.code]).toEqual([503, 'server_error', 'closed']);
    expect(await embed(url, { model: 'clip', input: dataUri(PHOTOS[0]!) })).toEqual([imageVectors[0]]);
  });

  it('keeps a service from starting if it is closed before', async () => {
    const path = join(scratch, 'clip/onnx/vision_model.onnx');
    const closed = await createTextEncoder(path);
    await closed.close();
    await expect(serve(await openSmall(), { textTower: closed })).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('does not mix spaces of other sizes', async () => {
    const { url } = await serve(await openSmall(), { textTower: tower });
    const error = await refusal(url, { model: 'tiny', input: 'a' });
    expect([error.status, error.param]).toEqual([400, 'model']);
    expect(error.message).toContain('texts have 12 elements and output "v" has 128');
  });
});

async function portOf(server: ReturnType<typeof createServer>): Promise<number> {
  if (!server.listening) await new Promise((resolve) => server.once('listening', resolve));
  return (server.address() as AddressInfo).port;
}
