/** Malformed requests to `/v1`: each is refused in the shape of OpenAI's errors. */
import { join } from 'node:path';
import { createFeatureExtractor, createTransform } from 'onnx-tapir';
import { createTextEncoder } from 'onnx-tapir/features';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scratchFolder } from '../../support/fixtures.js';
import { cleanUpServices, photo, serve } from '../../support/service.js';
import { writeHuggingFacePair } from '../../support/text-models.js';

const scratch = scratchFolder();
/** A service with both towers of a small CLIP. */
let url: string;

beforeAll(async () => {
  writeHuggingFacePair(join(scratch, 'clip'), 'clip');
  const path = join(scratch, 'clip/onnx/vision_model.onnx');
  const extractor = await createFeatureExtractor(path, [['tensor:image_embeds', 'embedding']]);
  const textTower = await createTextEncoder(path);
  const transform = createTransform({ resize: 32, crop: 32 });
  ({ url } = await serve(extractor, { transform, name: 'clip', textTower }));
  afterAll(async () => {
    await extractor.close();
    await textTower.close();
  });
});
cleanUpServices();

/** Bodies that no client should send, as text. */
const BAD_BODIES = [
  '',
  ' ',
  'null',
  'true',
  '3',
  '"a"',
  '[]',
  '[{"input":"a"}]',
  '{',
  '{"input":"a"',
  '{}',
  '{"input":null}',
  '{"input":""}',
  '{"input":[]}',
  '{"input":[""]}',
  '{"input":[null]}',
  '{"input":5}',
  '{"input":true}',
  '{"input":[1,2,3]}',
  '{"input":[[1,2,3],[4]]}',
  '{"input":{}}',
  '{"input":[{}]}',
  '{"input":[{"text":5}]}',
  '{"input":[{"image":5}]}',
  '{"input":[{"image":""}]}',
  '{"input":[{"image":"!!!"}]}',
  '{"input":[{"image":"data:image/png;base64,"}]}',
  '{"input":[{"image":"data:image/png,raw"}]}',
  '{"input":[{"image":"data:text/plain;base64,QUJD"}]}',
  '{"input":[{"image":{"url":5}}]}',
  '{"input":[{"image_url":{}}]}',
  '{"input":[{"text":"a","image":"AAAA"}]}',
  '{"input":[{"image":"file:///etc/passwd"}]}',
  '{"input":"a","model":5}',
  '{"input":"a","model":""}',
  '{"input":"a","model":"clip/"}',
  '{"input":"a","model":{"name":"clip"}}',
  '{"input":"a","encoding_format":"int8"}',
  '{"input":"a","encoding_format":5}',
  '{"input":"a","dimensions":0}',
  '{"input":"a","dimensions":1.5}',
  '{"input":"a","dimensions":"12"}',
  '{"input":"a","dimensions":1e300}',
  '{"input":"a","modality":"audio"}',
  '{"messages":[]}',
  '{"messages":{}}',
  '{"messages":[{"content":[]}]}',
  '{"messages":[{"content":["a","b"]}]}',
  '{"messages":[{"content":"a"}],"input":"a"}',
  '{"messages":[{"content":"a"},{"content":"b"}]}',
  '{"input":"\\ud800","encoding_format":[]}',
  `{"input":"${'a'.repeat(10_000)}"}`,
  `{"input":[${'"a",'.repeat(3000)}"a"]}`,
  `${'['.repeat(100)}${']'.repeat(100)}`,
  `{"input":[${'1,'.repeat(70_000)}1]}`,
];

describe('malformed bodies', () => {
  it.each(BAD_BODIES.map((body) => [body.slice(0, 60), body]))('%s', async (_, body) => {
    const response = await fetch(`${url}/v1/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(5000),
    });
    expect(response.status).toBeGreaterThanOrEqual(400);
    expect(response.status).toBeLessThan(500);
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    expect(error).toEqual({
      message: expect.stringMatching(/\S/) as string,
      type: 'invalid_request_error',
      param: error['param'] === null ? null : (expect.stringMatching(/^\w/) as string),
      code: expect.stringMatching(/^[a-z_]+$/) as string,
    });
  });

  it.each([
    ['GET', '/v1/embeddings', 405],
    ['POST', '/v1/models', 405],
    ['POST', '/v1/chat/completions', 404],
    ['GET', '/v1', 404],
  ])('%s %s is %i in the same shape', async (method, path, status) => {
    const response = await fetch(`${url}${path}`, { method });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', param: null } });
  });

  it('other media types', async () => {
    const response = await fetch(`${url}/v1/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'image/jpeg' },
      body: photo('city/city-0.jpg'),
    });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({
      error: {
        code: 'media_type_unsupported',
        message: '/v1/embeddings takes application/json, not image/jpeg',
      },
    });
  });
});
