/** The Open Inference Protocol as its clients speak it. */
import { deflateSync, gzipSync } from 'node:zlib';
import { embedImages, type Tensor } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { cleanUpServices, openSmallWithMap, photo, serve, SMALL } from '../support/service.js';

cleanUpServices();
let url: string;
let extractor: Awaited<ReturnType<typeof openSmallWithMap>>;
const DIMS = [2, 3, 64, 64];
const data = Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, i) => Math.sin(i));
let expected: Tensor;

beforeAll(async () => {
  extractor = await openSmallWithMap();
  ({ url } = await serve(extractor));
  expected = (await extractor.run({ dtype: 'float32', dims: DIMS, data })).v;
});

const get = (path: string): Promise<Response> => fetch(url + path);
const INFER = '/v2/models/tiny/infer';

function infer(body: unknown, path = INFER): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json' },
  });
}

/** As Triton's clients do: JSON, then the bytes of the tensors; no media type. */
function inferBinary(json: unknown, binary: readonly Uint8Array[], headerLength?: string): Promise<Response> {
  const head = Buffer.from(JSON.stringify(json));
  const body = new Blob([head, ...binary.map((bytes) => Uint8Array.from(bytes))]);
  const headers = { 'inference-header-content-length': headerLength ?? String(head.length) };
  return fetch(url + INFER, { method: 'POST', body, headers });
}

/** An output of a reply, from its JSON or from the bytes after it. */
async function readOutputs(response: Response): Promise<Record<string, Tensor>> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const length = Number(response.headers.get('inference-header-content-length') ?? bytes.length);
  const { outputs } = JSON.parse(bytes.toString('utf8', 0, length)) as {
    outputs: {
      name: string;
      datatype: string;
      shape: number[];
      data?: number[];
      parameters?: { binary_data_size: number };
    }[];
  };
  let at = length;
  const read = outputs.map(({ name, datatype, shape, data: values, parameters }): [string, Tensor] => {
    expect(datatype).toBe('FP32');
    if (values) return [name, { dtype: 'float32', dims: shape, data: Float32Array.from(values) }];
    const end = at + parameters!.binary_data_size;
    const own = Uint8Array.from(bytes.subarray(at, end)).buffer;
    at = end;
    return [name, { dtype: 'float32', dims: shape, data: new Float32Array(own) }];
  });
  expect(at).toBe(bytes.length);
  return Object.fromEntries(read);
}

async function errorOf(response: Response): Promise<readonly [number, string]> {
  return [response.status, ((await response.json()) as { error: string }).error];
}

describe('metadata and health', () => {
  it('says what the server and the model are', async () => {
    expect(await (await get('/v2')).json()).toMatchObject({
      name: 'onnx-tapir',
      extensions: ['binary_tensor_data', 'model_configuration', 'model_repository'],
    });
    const model = {
      name: 'tiny',
      versions: ['1'],
      platform: 'onnxruntime_onnx',
      inputs: [{ name: 'input', datatype: 'FP32', shape: [-1, 3, 64, 64] }],
      outputs: [
        { name: 'v', datatype: 'FP32', shape: [-1, 128, 1, 1] },
        { name: 'map', datatype: 'FP32', shape: [-1, 16, 16, 16] },
      ],
      parameters: {
        image_input: 'image',
        precision: 'float32',
        transform: expect.objectContaining({ resize: expect.anything(), mean: expect.anything() }),
      },
    };
    expect(await (await get('/v2/models/tiny')).json()).toEqual(model);
    expect(await (await get('/v2/models/tiny/versions/1')).json()).toEqual(model);
  });

  it.each([
    '/v2/health/live',
    '/v2/health/ready',
    '/v2/models/tiny/ready',
    '/v2/models/tiny/versions/1/ready',
  ])('%s is well', async (path) => {
    expect((await get(path)).status).toBe(200);
    expect((await fetch(url + path, { method: 'HEAD' })).status).toBe(200);
  });

  it('knows no other model and no other version', async () => {
    const [status, error] = await errorOf(await get('/v2/models/large'));
    expect([status, error]).toEqual([404, expect.stringContaining('"large"')]);
    expect((await get('/v2/models/tiny/versions/2/ready')).status).toBe(404);
    const valid = { inputs: [{ name: 'input', datatype: 'FP32', shape: [0], data: [] }] };
    expect((await infer(valid, '/v2/models/large/infer')).status).toBe(404);
    expect((await errorOf(await get('/v2/nothing')))[0]).toBe(404);
    expect((await errorOf(await get(INFER)))[0]).toBe(405);
  });
});

describe('what Triton’s clients ask besides', () => {
  it('has the configuration of the model, and an index of the models', async () => {
    const config = {
      name: 'tiny',
      platform: 'onnxruntime_onnx',
      backend: 'onnxruntime',
      max_batch_size: 8,
      input: [{ name: 'input', data_type: 'TYPE_FP32', dims: [3, 64, 64] }],
      output: [
        { name: 'v', data_type: 'TYPE_FP32', dims: [128, 1, 1] },
        { name: 'map', data_type: 'TYPE_FP32', dims: [16, 16, 16] },
      ],
    };
    expect(await (await get('/v2/models/tiny/config')).json()).toMatchObject(config);
    expect(await (await get('/v2/models/tiny/versions/1/config')).json()).toMatchObject(config);
    expect((await get('/v2/models/large/config')).status).toBe(404);
    for (const body of ['', '{"ready":true}']) {
      const index = await fetch(`${url}/v2/repository/index`, { method: 'POST', body });
      expect(await index.json()).toEqual([{ name: 'tiny', version: '1', state: 'READY', reason: '' }]);
    }
  });

  it.each([
    ['GET', '/v2/models/tiny/stats'],
    ['GET', '/v2/models/tiny/versions/1/stats'],
    ['GET', '/v2/models/stats'],
    ['POST', '/v2/repository/models/tiny/load'],
    ['POST', '/v2/repository/models/tiny/unload'],
    ['GET', '/v2/systemsharedmemory/status'],
  ])('says that it does not have %s %s', async (method, path) => {
    const [status, error] = await errorOf(await fetch(url + path, { method }));
    expect([status, error]).toEqual([501, expect.stringContaining('NOT_IMPLEMENTED')]);
  });

  it.each(['gzip', 'deflate'])('takes bodies in %s', async (encoding) => {
    const input = { name: 'input', datatype: 'FP32', shape: DIMS };
    const pack = encoding === 'gzip' ? gzipSync : deflateSync;
    const json = Buffer.from(
      JSON.stringify({ inputs: [{ ...input, data: [...data] }], outputs: [{ name: 'v' }] }),
    );
    const post = (body: Buffer, headers: Record<string, string> = {}) =>
      fetch(url + INFER, {
        method: 'POST',
        body: Uint8Array.from(body),
        headers: { 'content-encoding': encoding, ...headers },
      });
    expect(await readOutputs(await post(pack(json)))).toEqual({ v: expected });
    const sized = { ...input, parameters: { binary_data_size: data.byteLength } };
    const head = Buffer.from(JSON.stringify({ inputs: [sized], outputs: [{ name: 'v' }] }));
    const whole = pack(Buffer.concat([head, new Uint8Array(data.buffer)]));
    const binary = await post(whole, { 'inference-header-content-length': String(head.length) });
    expect(await readOutputs(binary)).toEqual({ v: expected });
    // What unpacks to more than a body may have, and what does not unpack.
    const bomb = await post(pack(Buffer.alloc(64 * 2 ** 20)));
    expect(bomb.status).toBe(413);
    expect(await errorOf(await post(json))).toEqual([400, expect.stringMatching(/decompressed/)]);
    expect(await errorOf(await post(whole.subarray(0, 1000)))).toEqual([
      400,
      expect.stringMatching(/decompressed/),
    ]);
    expect((await post(json, { 'content-encoding': 'br' })).status).toBe(415);
  });

  it('refuses parameters that would change the answer', async () => {
    const input = { name: 'input', datatype: 'FP32', shape: DIMS, data: [...data] };
    const ask = (output: object, more: object = {}): Promise<Response> =>
      infer({ inputs: [{ ...input, ...more }], outputs: [{ name: 'v', ...output }] });
    for (const parameters of [{ classification: 3 }, { class_count: 3 }])
      expect(await errorOf(await ask({ parameters }))).toEqual([400, expect.stringMatching(/class labels/)]);
    const shared = { parameters: { shared_memory_region: 'a', shared_memory_byte_size: 4 } };
    expect(await errorOf(await ask(shared))).toEqual([400, expect.stringMatching(/shared memory/)]);
    expect(await errorOf(await ask({}, shared))).toEqual([400, expect.stringMatching(/shared memory/)]);
    expect((await ask({ parameters: { unknown: 1 } })).status).toBe(200);
  });
});

describe('inference with tensors', () => {
  const input = { name: 'input', datatype: 'FP32', shape: DIMS };

  it.each([INFER, '/v2/models/tiny/versions/1/infer'])('runs JSON at %s, bit for bit', async (path) => {
    const response = await infer({ id: 'a "b"', inputs: [{ ...input, data: [...data] }] }, path);
    expect(response.status).toBe(200);
    const text = await response.clone().text();
    // No float32 needs more than nine digits.
    expect(text).not.toMatch(/[1-9][0-9.]{10}/);
    const reply = JSON.parse(text) as { id: string; outputs: { name: string }[] };
    expect(reply).toMatchObject({ model_name: 'tiny', model_version: '1', id: 'a "b"' });
    expect(reply.outputs.map(({ name }) => name)).toEqual(['v', 'map']);
    expect((await readOutputs(response))['v']).toEqual(expected);
  });

  it('takes data nested as the shape is', async () => {
    const nest = (at: number, [size, ...rest]: readonly number[]): unknown[] => {
      const step = rest.reduce((product, one) => product * one, 1);
      return Array.from({ length: size! }, (_, i) =>
        rest.length === 0 ? data[at + i]! : nest(at + i * step, rest),
      );
    };
    const response = await infer({ inputs: [{ ...input, data: nest(0, DIMS) }], outputs: [{ name: 'v' }] });
    expect(await readOutputs(response)).toEqual({ v: expected });
  });

  it('takes and sends bytes after the JSON', async () => {
    const sized = { ...input, parameters: { binary_data_size: data.byteLength } };
    const bytes = [new Uint8Array(data.buffer)];
    const all = await inferBinary({ inputs: [sized], parameters: { binary_data_output: true } }, bytes);
    expect(all.headers.get('content-type')).toBe('application/octet-stream');
    const outputs = await readOutputs(all);
    expect(Object.keys(outputs)).toEqual(['v', 'map']);
    expect(outputs['v']).toEqual(expected);
    const some = await inferBinary(
      {
        inputs: [sized],
        parameters: { binary_data_output: true },
        outputs: [{ name: 'map' }, { name: 'v', parameters: { binary_data: false } }],
      },
      bytes,
    );
    const mixed = await readOutputs(some);
    expect(Object.keys(mixed)).toEqual(['map', 'v']);
    expect(mixed).toEqual(outputs);
  });

  it('refuses tensors that do not fit, and says what would', async () => {
    const short = { ...input, shape: [1, 3, 64, 64] };
    const values = [...data];
    const cases: readonly (readonly [unknown, RegExp])[] = [
      ['{', /not JSON/],
      ['[]', /must be object/],
      [{}, /inputs/],
      [{ inputs: [] }, /inputs/],
      [{ inputs: [{ name: 'input', shape: DIMS }] }, /datatype/],
      [{ inputs: [{ ...input, datatype: 'BF16', data: values }] }, /datatype .*FP16, FP32/],
      [{ inputs: [{ ...input, shape: [-1, 3, 64, 64], data: values }] }, /shape/],
      [{ inputs: [{ ...input, shape: ['2', 3, 64, 64], data: values }] }, /shape/],
      [{ inputs: [{ ...input, shape: [2 ** 40, 2 ** 40], data: values }] }, /2\^53/],
      [{ inputs: [{ ...input, shape: [2, 3, 64, 65], data: values }] }, /of dims/],
      [{ inputs: [{ ...input, shape: [2, 12288], data: values }] }, /of dims/],
      [{ inputs: [{ ...short, data: values }] }, /12288 elements/],
      [{ inputs: [{ ...input, data: 'text' }] }, /data must be array/],
      [{ inputs: [input] }, /as a list/],
      [{ inputs: [{ ...input, data: values.with(7, '1' as never) }] }, /made of FP32/],
      [{ inputs: [{ ...input, data: [values, values] }] }, /nested/],
      [{ inputs: [{ ...input, datatype: 'FP64', data: values }] }, /float32/],
      [{ inputs: [{ ...input, name: 'x', data: values }] }, /no input "x"/],
      [{ inputs: [{ ...input, name: '__proto__', data: values }] }, /no input/],
      [
        {
          inputs: [
            { ...input, data: values },
            { ...input, data: values },
          ],
        },
        /once/,
      ],
      [{ inputs: [{ ...input, data: values }], outputs: [{ name: 'y' }] }, /no output "y"/],
      [{ inputs: [{ ...input, data: values }], outputs: [{ name: 'v' }, { name: 'v' }] }, /once/],
    ];
    for (const [body, reason] of cases) {
      const [status, error] = await errorOf(await infer(body));
      expect([status, error]).toEqual([400, expect.stringMatching(reason)]);
    }
    expect((await infer({ inputs: [{ ...input, data: values }] })).status).toBe(200);
  });

  it('refuses an element that is nested deeply, in few words', async () => {
    const faults: unknown[] = [];
    const { url: own } = await serve(extractor, { onError: (error) => faults.push(error) });
    const deep = (depth: number): string =>
      `{"inputs":[{"name":"input","datatype":"FP32","shape":[1],"data":[${'['.repeat(depth)}${']'.repeat(depth)}]}]}`;
    for (const depth of [1, 30, 31, 1000, 100_000]) {
      const response = await fetch(own + INFER, { method: 'POST', body: deep(depth) });
      const [status, error] = await errorOf(response);
      expect([status, error.length < 200]).toEqual([400, true]);
    }
    expect(faults).toEqual([]);
  });

  it('refuses bytes that are cut off, left over, or not where the headers say', async () => {
    const bytes = new Uint8Array(data.buffer);
    const sized = (size: number): unknown => ({
      inputs: [{ ...input, parameters: { binary_data_size: size } }],
    });
    const cases: readonly (readonly [Promise<Response>, RegExp])[] = [
      [inferBinary(sized(bytes.length), [bytes.subarray(0, 1000)]), /1000 are left/],
      [inferBinary(sized(1000), [bytes.subarray(0, 1000)]), /98304 bytes/],
      [inferBinary(sized(bytes.length), [bytes, bytes.subarray(0, 3)]), /belong to no input/],
      [inferBinary({ inputs: [{ ...input, data: [...data] }] }, [bytes]), /belong to no input/],
      [inferBinary(sized(bytes.length), [bytes], '10'), /not JSON/],
      [inferBinary(sized(bytes.length), [bytes], '999999999'), /number of bytes/],
      [inferBinary(sized(bytes.length), [bytes], '-1'), /number of bytes/],
      [inferBinary(sized(bytes.length), [bytes], 'all'), /number of bytes/],
      [inferBinary(sized(-1), [bytes]), /binary_data_size/],
    ];
    for (const [response, reason] of cases)
      expect(await errorOf(await response)).toEqual([400, expect.stringMatching(reason)]);
  });
});

describe('inference with encoded images', () => {
  const photos = [photo('city/city-0.jpg'), photo('sea/sea-1.jpg')];
  const input = { name: 'image', datatype: 'BYTES', shape: [2] };
  const framed = (images: readonly Uint8Array[]): Buffer =>
    Buffer.concat(
      images.flatMap((image) => {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(image.length);
        return [length, image];
      }),
    );

  it('takes them as bytes or as base64, with the pixels of embedImages', async () => {
    const bytes = framed(photos);
    const binary = await inferBinary(
      { inputs: [{ ...input, parameters: { binary_data_size: bytes.length } }] },
      [bytes],
    );
    const json = await infer({
      inputs: [{ ...input, shape: [2, 1], data: photos.map((one) => one.toString('base64')) }],
    });
    const outputs = await readOutputs(binary);
    expect(outputs['v']!.dims).toEqual([2, 128, 1, 1]);
    expect(outputs['map']!.dims).toEqual([2, 16, 16, 16]);
    expect(await readOutputs(json)).toEqual(outputs);
    let row = 0;
    for await (const { features } of embedImages(extractor, photos, { transform: SMALL })) {
      expect((outputs['v']!.data as Float32Array).subarray(128 * row, 128 * (row + 1))).toEqual(
        features!.v.data,
      );
      row++;
    }
  });

  it('fails as a whole for one that cannot be read', async () => {
    const bytes = framed([photos[0]!, Buffer.from('no image')]);
    const response = await inferBinary(
      { inputs: [{ ...input, parameters: { binary_data_size: bytes.length } }] },
      [bytes],
    );
    expect(await errorOf(response)).toEqual([422, expect.stringContaining('IMAGE_UNREADABLE')]);
  });

  it('refuses what is no list of images', async () => {
    const bytes = framed(photos);
    const sized = { ...input, parameters: { binary_data_size: bytes.length - 1 } };
    const cut = await inferBinary({ inputs: [sized] }, [bytes.subarray(0, -1)]);
    expect(await errorOf(cut)).toEqual([400, expect.stringMatching(/cut off/)]);
    const three = { ...input, shape: [3], parameters: { binary_data_size: bytes.length } };
    expect((await inferBinary({ inputs: [three] }, [bytes])).status).toBe(400);
    const cases = [
      { ...input, data: ['%%%%', 'AAAA'] },
      { ...input, data: ['AAA', 'AAAA'] },
      { ...input, data: [1, 2] },
      { ...input, shape: [1, 2], data: ['AAAA', 'AAAA'] },
      { ...input, shape: [], data: ['AAAA'] },
      { ...input, shape: [0], data: [] },
    ];
    for (const one of cases) expect((await infer({ inputs: [one] })).status).toBe(400);
    const many = { ...input, shape: [65], data: Array.from({ length: 65 }, () => 'AAAA') };
    expect((await infer({ inputs: [many] })).status).toBe(413);
  });
});
