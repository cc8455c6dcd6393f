/** Pulling known models: faults of servers, networks and disks, and the files that remain afterwards. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { TapirError } from '../../../src/base/errors.js';
import type { KnownModel, KnownModelFile } from '../../../src/learn/hub/known-models.js';
import { unwritable } from '../../../src/base/atomic-file.js';
import { findCachedModel } from '../../../src/learn/hub/model-cache.js';
import { findTransform } from '../../../src/photos/images/configs/find-transform.js';
import { transformFromConfig } from '../../../src/photos/images/configs/transform-from-config.js';
import { pullModel, type PullOptions } from '../../../src/learn/hub/pull-model.js';
import type { PulledFile } from '../../../src/learn/hub/pulled-model.js';
import type { Options } from '../../../src/base/checks.js';
import { sendCut, sendFile, startServer } from '../../support/file-server.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runNode } from '../../support/run.js';
import { failureOf } from '../../support/failure.js';
import { rounds, someOf } from '../../support/rounds.js';

const scratch = scratchFolder();
const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 8)) & 255);
const sha256 = createHash('sha256').update(bytes).digest('hex');
let count = 0;

/** A model of one file (or of the given ones), and a folder of its own to pull it into. */
function createModel(url: string, file: Partial<KnownModelFile> = {}): { model: KnownModel; folder: string } {
  const model: KnownModel = {
    name: 'tiny',
    description: 'a test',
    files: [{ name: 'tiny.onnx', url: `${url}/tiny.onnx`, sizeBytes: bytes.length, sha256, ...file }],
    licence: { spdx: 'MIT', url: 'https://example.org/licence' },
    transform: null,
    inputSize: [224, 224],
    nodes: [],
    note: '',
    source: 'https://example.org',
  };
  return { model, folder: join(scratch, String(count++)) };
}

async function pull(
  { model, folder }: ReturnType<typeof createModel>,
  options: Options<PullOptions> = {},
): Promise<readonly PulledFile[]> {
  return (await pullModel(model, { folder, retryDelayMs: 1, stallMs: 5000, ...options })).files;
}

function filesOf(folder: string): string[] {
  return readdirSync(join(folder, 'tiny')).toSorted();
}

describe('pullModel', () => {
  it('downloads, checks, records the checksum, and asks the network only once', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url);
    expect(await findCachedModel(one.model, one.folder)).toBeNull();
    const seen: number[] = [];
    const [file] = await pull(one, { onProgress: (now) => seen.push(now.done) });
    expect(file).toMatchObject({ sha256, sizeBytes: bytes.length, checked: 'list', isNew: true });
    expect(readFileSync(file!.path).equals(bytes)).toBe(true);
    expect(seen.at(-1)).toBe(bytes.length);
    expect(filesOf(one.folder)).toEqual(['tiny.onnx', 'tiny.onnx.sha256']);
    expect(readFileSync(`${file!.path}.sha256`, 'utf8')).toBe(`${sha256}  tiny.onnx\n`);
    expect(await findCachedModel(one.model, one.folder)).toBe(file!.path);
    expect(await pull(one)).toMatchObject([{ checked: 'list', isNew: false }]);
    expect(server.requests.length).toBe(1);
  });

  it.each([
    'Bicubic256',
    'torchvision:ResNet50_Weights.IMAGENET1K_V2',
    { image_processor_type: 'ViTImageProcessor' },
  ])('writes the transform beside the model, where it is found: %j', async (transform) => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const { model, folder } = createModel(server.url);
    const [file] = await pull({ model: { ...model, transform }, folder });
    const found = await findTransform(file!.path);
    expect(found?.from).toBe(`${file!.path}.tapir.json`);
    expect(found?.transform.options).toEqual(transformFromConfig(transform).options);
    writeFileSync(found!.from, JSON.stringify({ transform: 'Squash224', engine: 'onnxruntime' }));
    await pull({ model: { ...model, transform }, folder });
    expect(JSON.parse(readFileSync(found!.from, 'utf8'))).toEqual({ transform, engine: 'onnxruntime' });
  });

  it('asks the mirror of HF_ENDPOINT for files of the hub, and sends the token to no other server', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const hub = createModel('https://huggingface.co/org/repo/resolve/main');
    const elsewhere = await startServer((request, response) => sendFile(request, response, bytes));
    const other = createModel(elsewhere.url);
    vi.stubEnv('HF_ENDPOINT', server.url);
    vi.stubEnv('HF_TOKEN', 'hf_test');
    try {
      await pull(hub);
      await pull(other);
    } finally {
      vi.unstubAllEnvs();
    }
    expect(server.requests.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/org/repo/resolve/main/tiny.onnx', 'Bearer hf_test'],
    ]);
    expect(elsewhere.requests[0]!.headers.authorization).toBeUndefined();
  });

  it('takes no file or variant', async () => {
    for (const option of [{ file: 'a.onnx' }, { variant: 'fp16' }])
      expect(await failureOf(pull(createModel('http://127.0.0.1:9'), option), TapirError)).toMatchObject({
        code: 'OPTION_INVALID',
      });
  });

  it('downloads a damaged file again', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url);
    const [file] = await pull(one);
    writeFileSync(file!.path, 'damaged');
    expect(await findCachedModel(one.model, one.folder)).toBeNull();
    expect(await pull(one)).toMatchObject([{ isNew: true }]);
    expect(readFileSync(file!.path).equals(bytes)).toBe(true);
  });

  it('resumes after a cut connection, in the same pull', async () => {
    const server = await startServer((request, response, nth) =>
      nth < 3 ? sendCut(request, response, bytes, nth * 100_000) : sendFile(request, response, bytes),
    );
    expect(await pull(createModel(server.url))).toMatchObject([{ sha256, isNew: true }]);
    expect(server.requests.map(({ headers }) => [headers.range, headers['if-range']])).toEqual([
      [undefined, undefined],
      ['bytes=100000-', '"one"'],
      ['bytes=200000-', '"one"'],
    ]);
  });

  it.each(someOf([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4))(
    'resumes where a server that closes each connection resets it, after %i tenths of the rest',
    async (tenths) => {
      for (let round = 0; round < rounds(1, 10); round++) {
        const server = await startServer((request, response, nth) => {
          response.setHeader('connection', 'close');
          if (nth > 3) return sendFile(request, response, bytes);
          const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
          const end = start + Math.floor(((bytes.length - start) * tenths) / 10);
          response.writeHead(start > 0 ? 206 : 200, {
            etag: '"one"',
            'content-length': bytes.length - start,
            'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}`,
          });
          response.write(bytes.subarray(start, end), () => request.socket.resetAndDestroy());
        });
        expect(await pull(createModel(server.url))).toMatchObject([{ sha256, isNew: true }]);
      }
    },
  );

  it('resumes in the next pull', async () => {
    const server = await startServer((request, response, nth) =>
      nth === 1 ? sendCut(request, response, bytes, 120_000) : sendFile(request, response, bytes),
    );
    const one = createModel(server.url);
    expect(await failureOf(pull(one, { attempts: 1 }), TapirError)).toMatchObject({
      code: 'DOWNLOAD_FAILED',
    });
    expect(filesOf(one.folder)).toEqual(['tiny.onnx.partial', 'tiny.onnx.partial.json']);
    expect(await findCachedModel(one.model, one.folder)).toBeNull();
    // On a busy machine the reset overtakes some of the bytes.
    const { size } = statSync(join(one.folder, 'tiny', 'tiny.onnx.partial'));
    expect(size).toBeGreaterThan(0);
    expect(await pull(one, { attempts: 1 })).toMatchObject([{ sha256 }]);
    expect(server.requests[1]!.headers.range).toBe(`bytes=${size}-`);
    expect(filesOf(one.folder)).toEqual(['tiny.onnx', 'tiny.onnx.sha256']);
  });

  it('starts over if the server ignores ranges', async () => {
    const server = await startServer((request, response, nth) => {
      delete request.headers.range;
      if (nth === 1) sendCut(request, response, bytes, 120_000);
      else sendFile(request, response, bytes);
    });
    expect(await pull(createModel(server.url))).toMatchObject([{ sha256 }]);
    expect(server.requests.length).toBe(2);
  });

  it.each(['If-Range is heeded', 'If-Range is not heeded'])(
    'starts over if the file has changed; %s',
    async (how) => {
      const old = bytes.map((byte) => byte ^ 1);
      const server = await startServer((request, response, nth) => {
        if (how !== 'If-Range is heeded') delete request.headers['if-range'];
        if (nth === 1) sendCut(request, response, old, 120_000);
        else sendFile(request, response, bytes, '"two"');
      });
      // Without a checksum: only the validator tells.
      expect(await pull(createModel(server.url, { sha256: null }))).toMatchObject([{ sha256 }]);
    },
  );

  it('starts over if the partial file is longer than the file', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url, { sizeBytes: null });
    mkdirSync(join(one.folder, 'tiny'), { recursive: true });
    const partial = join(one.folder, 'tiny/tiny.onnx.partial');
    writeFileSync(partial, new Uint8Array(bytes.length + 1));
    writeFileSync(`${partial}.json`, JSON.stringify({ url: one.model.files[0]!.url, validator: '"one"' }));
    expect(await pull(one)).toMatchObject([{ sha256 }]);
  });

  it('discards a partial file from another address', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url);
    mkdirSync(join(one.folder, 'tiny'), { recursive: true });
    const partial = join(one.folder, 'tiny/tiny.onnx.partial');
    writeFileSync(partial, 'something else');
    writeFileSync(`${partial}.json`, JSON.stringify({ url: 'https://example.org/a', validator: '"one"' }));
    expect(await pull(one)).toMatchObject([{ sha256 }]);
    expect(server.requests[0]!.headers.range).toBeUndefined();
  });

  it('trusts the first download if the checksum is unknown, and refuses later changes', async () => {
    let content = bytes;
    const server = await startServer((request, response) => sendFile(request, response, content));
    const one = createModel(server.url, { sha256: null, sizeBytes: null });
    const [file] = await pull(one);
    expect(file).toMatchObject({ sha256, checked: 'first', isNew: true });
    expect(await pull(one)).toMatchObject([{ checked: 'record', isNew: false }]);
    writeFileSync(file!.path, 'damaged');
    content = bytes.map((byte) => byte ^ 1);
    const error = await failureOf(pull(one), TapirError);
    expect(error).toMatchObject({ code: 'CHECKSUM_MISMATCH', details: { expected: sha256 } });
    expect(error.message).toContain('tiny.onnx.sha256');
    expect(filesOf(one.folder)).toEqual(['tiny.onnx', 'tiny.onnx.sha256']);
  });

  it('refuses a wrong file and deletes it', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url, { sha256: 'a'.repeat(64) });
    expect(await failureOf(pull(one), TapirError)).toMatchObject({
      code: 'CHECKSUM_MISMATCH',
      details: { expected: 'a'.repeat(64), actual: sha256, path: join(one.folder, 'tiny/tiny.onnx') },
    });
    expect(filesOf(one.folder)).toEqual([]);
    expect(server.requests.length).toBe(1);
  });

  it('pulls external weights too, the model file last', async () => {
    const weights = bytes.subarray(5);
    const server = await startServer((request, response) =>
      sendFile(request, response, request.url === '/w.bin' ? weights : bytes),
    );
    const { model, folder } = createModel(server.url);
    const data = { name: 'w.bin', url: `${server.url}/w.bin`, sizeBytes: weights.length, sha256: null };
    const two = { ...model, files: [...model.files, data] };
    expect(await pull({ model: two, folder })).toMatchObject([{ name: 'tiny.onnx' }, { name: 'w.bin' }]);
    expect(server.requests.map(({ url }) => url)).toEqual(['/w.bin', '/tiny.onnx']);
    expect(readFileSync(join(folder, 'tiny/w.bin')).equals(weights)).toBe(true);
  });
});

describe('a server that misbehaves', () => {
  it('announces too many bytes', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url, { sizeBytes: 1000 });
    const error = await failureOf(pull(one), TapirError);
    expect(error).toMatchObject({
      code: 'DOWNLOAD_FAILED',
      details: { reason: 'it has 300000 bytes, not 1000' },
    });
    const limited = createModel(server.url, { sizeBytes: null });
    expect((await failureOf(pull(limited, { limitBytes: 1000 }), TapirError)).message).toContain(
      'the limit is 1000 (limitBytes)',
    );
    expect(filesOf(one.folder)).toEqual([]);
    expect(server.requests.length).toBe(2);
  });

  it('sends too many bytes without announcing them', async () => {
    const server = await startServer((_request, response) => response.end(bytes.slice()));
    const chunked = await startServer((_request, response) => {
      response.write(bytes.subarray(0, 10));
      response.end(bytes.subarray(10));
    });
    for (const { url } of [server, chunked]) {
      const one = createModel(url, { sizeBytes: null });
      expect(await failureOf(pull(one, { limitBytes: 1000 }), TapirError)).toMatchObject({
        code: 'DOWNLOAD_FAILED',
      });
      expect(filesOf(one.folder)).toEqual([]);
    }
    expect(chunked.requests.length).toBe(1);
  });

  it('sends too few bytes', async () => {
    const server = await startServer((_request, response) => {
      response.writeHead(200, { etag: '"one"' });
      response.write(bytes.subarray(0, 10));
      response.end(bytes.subarray(10, 1000));
    });
    const error = await failureOf(pull(createModel(server.url), { attempts: 2 }), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toMatch(/2 attempts/);
  });

  it('announces fewer bytes than listed', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes.subarray(9)));
    expect((await failureOf(pull(createModel(server.url)), TapirError)).message).toContain(
      '299991 bytes, not 300000',
    );
    expect(server.requests.length).toBe(1);
  });

  it('redirects in a loop, or to the file', async () => {
    const loop = await startServer((request, response) =>
      response.writeHead(302, { location: request.url ?? '/' }).end(),
    );
    expect((await failureOf(pull(createModel(loop.url)), TapirError)).message).toContain('more than 5 times');
    expect(loop.requests.length).toBe(6);
    const fine = await startServer((request, response, nth) => {
      if (nth <= 5) response.writeHead(307, { location: `/hop-${nth}` }).end('moved');
      else sendFile(request, response, bytes);
    });
    expect(await pull(createModel(fine.url))).toMatchObject([{ sha256 }]);
  });

  it.each([
    ['http://192.0.2.1/tiny.onnx', 'not encrypted'],
    ['file:///etc/passwd', 'neither https: nor http:'],
    ['https://user:secret@192.0.2.1/', 'contains a user name or password'],
    ['http://', 'cannot be read'],
  ])('redirects to %s', async (location, reason) => {
    const server = await startServer((_request, response) => response.writeHead(302, { location }).end());
    const error = await failureOf(pull(createModel(server.url)), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain(reason);
    expect(error.message).not.toContain('secret');
    expect(server.requests.length).toBe(1);
  });

  it('is not encrypted', async () => {
    const error = await failureOf(pull(createModel('http://192.0.2.1')), TapirError);
    expect(error.message).toContain('--allow-http');
  });

  it('stalls', async () => {
    const server = await startServer((request, response, nth) => {
      if (nth > 1) sendFile(request, response, bytes);
      else
        response
          .writeHead(200, { 'content-length': bytes.length, etag: '"one"' })
          .write(bytes.subarray(0, 5000));
    });
    expect(await pull(createModel(server.url), { stallMs: 200 })).toMatchObject([{ sha256 }]);
    expect(server.requests[1]!.headers.range).toBe('bytes=5000-');
    const silent = await startServer(() => undefined);
    const error = await failureOf(pull(createModel(silent.url), { stallMs: 50, attempts: 2 }), TapirError);
    expect(error.message).toContain('nothing arrived for 50 ms (2 attempts)');
  });

  it('has no such file: there is no second attempt', async () => {
    const server = await startServer((_request, response) => response.writeHead(404).end('no'));
    const error = await failureOf(pull(createModel(server.url)), TapirError);
    expect(error).toMatchObject({
      code: 'DOWNLOAD_FAILED',
      details: { url: `${server.url}/tiny.onnx`, reason: 'the server answers 404 Not Found' },
    });
    expect(server.requests.length).toBe(1);
  });

  it('fails, then works', async () => {
    const server = await startServer((request, response, nth) => {
      if (nth === 1) response.writeHead(500).end();
      else if (nth === 2) response.writeHead(429).end();
      else if (nth === 3) request.socket.destroy();
      else sendFile(request, response, bytes);
    });
    expect(await pull(createModel(server.url))).toMatchObject([{ sha256 }]);
    expect(server.requests.length).toBe(4);
  });

  it('is not there', async () => {
    const error = await failureOf(pull(createModel('http://127.0.0.1:9'), { attempts: 2 }), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
  });

  it('sends it compressed though that was not asked for', async () => {
    const server = await startServer((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end('x'),
    );
    expect((await failureOf(pull(createModel(server.url)), TapirError)).message).toContain(
      'compressed (gzip)',
    );
  });
});

describe('the cache folder', () => {
  it('is pulled into by one at a time', async () => {
    let release = (): void => undefined;
    const server = await startServer((request, response) => {
      release = () => sendFile(request, response, bytes);
    });
    const one = createModel(server.url);
    const first = pull(one);
    await expect.poll(() => server.requests.length).toBe(1);
    const error = await failureOf(pull(one), TapirError);
    expect(error).toMatchObject({ code: 'OUTPUT_LOCKED', details: { host: hostname(), pid: process.pid } });
    release();
    expect(await first).toMatchObject([{ sha256, isNew: true }]);
    expect(await pull(one)).toMatchObject([{ isNew: false }]);
  });

  it('is pulled into by one process at a time', async () => {
    const answers: (() => void)[] = [];
    const server = await startServer((request, response) => {
      answers.push(() => sendFile(request, response, bytes));
    });
    const { model, folder } = createModel(server.url);
    const code = `
      import { pullModel } from ${JSON.stringify(projectPath('src/learn/hub/pull-model.ts'))};
      const say = ({ files: [file] }) => console.log(file.isNew ? 'pulled' : 'there');
      const fail = (error) => console.log(error.code, error.details.pid);
      await pullModel(${JSON.stringify(model)}, { folder: ${JSON.stringify(folder)} }).then(say, fail);`;
    const args = ['--import', 'tsx', '--input-type=module', '-e', code];
    const first = runNode(args);
    await expect.poll(() => answers.length, { timeout: 20_000 }).toBe(1);
    const { pid } = JSON.parse(readFileSync(join(folder, 'tiny/.tapir-lock'), 'utf8')) as { pid: number };
    expect(pid).not.toBe(process.pid);
    expect(await runNode(args)).toMatchObject({ stdout: `OUTPUT_LOCKED ${pid}\n`, code: 0 });
    answers[0]!();
    expect(await first).toMatchObject({ stdout: 'pulled\n', code: 0 });
    expect(await runNode(args)).toMatchObject({ stdout: 'there\n', code: 0 });
    expect(answers.length).toBe(1);
    expect(readdirSync(join(folder, 'tiny')).toSorted()).toEqual(['tiny.onnx', 'tiny.onnx.sha256']);
  }, 60_000);

  it('is taken over from a process that died', async () => {
    const server = await startServer((request, response) => sendFile(request, response, bytes));
    const one = createModel(server.url);
    mkdirSync(join(one.folder, 'tiny'), { recursive: true });
    const lock = join(one.folder, 'tiny/.tapir-lock');
    // Beyond the largest process number of every system.
    writeFileSync(lock, JSON.stringify({ pid: 2 ** 30, host: hostname() }));
    expect(await pull(one)).toMatchObject([{ sha256 }]);
    expect(existsSync(lock)).toBe(false);
    writeFileSync(lock, JSON.stringify({ pid: 2 ** 30, host: 'another' }));
    expect((await failureOf(pull(one), TapirError)).message).toContain(lock);
    writeFileSync(lock, 'damaged');
    expect((await failureOf(pull(one), TapirError)).message).toContain('another process');
  });

  it('has no room', async () => {
    const one = createModel('http://127.0.0.1:9', { sizeBytes: 2 ** 52 });
    const error = await failureOf(pull(one), TapirError);
    expect(error).toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
    expect(error.message).toContain(`needs ${2 ** 52} bytes`);
  });

  it('becomes full', async () => {
    const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
    const error = unwritable(join(scratch, 'file'), full);
    expect(error).toMatchObject({ code: 'OUTPUT_UNWRITABLE', cause: full });
    expect(error.message).toMatch(/no space left \(\d+ bytes are free\)/);
  });

  it('cannot be made', async () => {
    const one = createModel('http://127.0.0.1:9');
    writeFileSync(one.folder, 'a file');
    expect(await failureOf(pull(one), TapirError)).toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
  });

  it('is left alone by an abort, except for what has arrived', async () => {
    const abort = new AbortController();
    const server = await startServer((_request, response) => {
      response
        .writeHead(200, { 'content-length': bytes.length, etag: '"one"' })
        .write(bytes.subarray(0, 5000));
    });
    const one = createModel(server.url);
    const pulling = pull(one, { signal: abort.signal, onProgress: () => abort.abort(new Error('enough')) });
    await expect(pulling).rejects.toThrow('enough');
    expect(filesOf(one.folder)).toEqual(['tiny.onnx.partial', 'tiny.onnx.partial.json']);
  });
});
