/**
 * Pulling from a repository. The hub is a local server that answers as the API's documentation and Python's `huggingface_hub` say:
 * no real hub could be reached where this was written.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createFeatureExtractor } from 'onnx-tapir';
import { TapirError } from '../../../src/base/errors.js';
import type { Options } from '../../../src/base/checks.js';
import { findTransform } from '../../../src/photos/images/configs/find-transform.js';
import { pullModel, type PullOptions } from '../../../src/learn/hub/pull-model.js';
import type { PulledModel } from '../../../src/learn/hub/pulled-model.js';
import { findCachedRepository } from '../../../src/learn/hub/pull-repository.js';
import { parseRepositoryReference } from '../../../src/learn/hub/repository-reference.js';
import { openModel } from '../../../src/run/model/open/open-model.js';
import { sendCut, sendFile } from '../../support/file-server.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { gitHashOf, sha256Of, startHub, type HubOptions, type HubServer } from '../../support/hub-server.js';
import { failureOf } from '../../support/failure.js';

let isWithoutLinks = false;
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  const symlink: typeof real.symlink = (...args) => {
    const error = Object.assign(new Error('EPERM: operation not permitted'), { code: 'EPERM' });
    return isWithoutLinks ? Promise.reject(error) : real.symlink(...args);
  };
  return { ...real, symlink };
});

const scratch = scratchFolder();
const model = tinyResNet();
const text = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));
const CLIP = text({ image_processor_type: 'CLIPImageProcessor', size: { shortest_edge: 64 }, crop_size: 64 });
const files = {
  'README.md': Buffer.from('a model'),
  'config.json': text({ model_type: 'clip' }),
  'preprocessor_config.json': CLIP,
  'tokenizer.json': text({ version: '1.0' }),
  'onnx/vision_model.onnx': model,
  'onnx/vision_model_fp16.onnx': model.subarray(0, 1000),
  'onnx/text_model.onnx': model.subarray(0, 2000),
  'onnx/model.onnx': model.subarray(0, 3000),
  'model.safetensors': model.subarray(0, 4000),
};
const ORDINARY = ['config.json', 'onnx/vision_model.onnx', 'preprocessor_config.json', 'tokenizer.json'];
let count = 0;

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Starts a hub; the environment points to it, and to an empty cache. */
async function visit(options: Partial<HubOptions> = {}): Promise<HubServer & { readonly cache: string }> {
  const server = await startHub({ repository: 'org/repo', files, ...options });
  const cache = join(scratch, String(count++), 'hub');
  for (const name of ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN', 'HF_TOKEN_PATH', 'HF_HUB_OFFLINE'])
    vi.stubEnv(name, '');
  vi.stubEnv('HF_ENDPOINT', `${server.url}/`);
  vi.stubEnv('HF_HOME', dirname(cache));
  vi.stubEnv('HF_HUB_CACHE', cache);
  return { ...server, cache };
}

async function pull(reference = 'hf:org/repo', options: Options<PullOptions> = {}): Promise<PulledModel> {
  return pullModel(reference, { retryDelayMs: 1, stallMs: 5000, ...options });
}

/** All paths below a folder. */
function listed(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted();
}

describe('pullModel of a repository', () => {
  it('fetches the image half with its configurations and tokenizer, in the layout of the shared cache', async () => {
    const { cache, commit, hub, cdn } = await visit();
    const pulled = await pull();
    expect(pulled.files.map(({ name }) => name).toSorted()).toEqual(ORDINARY);
    expect(pulled.files[0]).toMatchObject({
      name: 'onnx/vision_model.onnx',
      sha256: sha256Of(model),
      sizeBytes: model.length,
      checked: 'list',
      isNew: true,
    });
    const root = join(cache, 'models--org--repo');
    expect(pulled.path).toBe(join(root, 'snapshots', commit, 'onnx', 'vision_model.onnx'));
    expect(readlinkSync(pulled.path)).toBe(join('..', '..', '..', 'blobs', sha256Of(model)));
    expect(readFileSync(pulled.path).equals(model)).toBe(true);
    expect(readlinkSync(join(root, 'snapshots', commit, 'preprocessor_config.json'))).toBe(
      join('..', '..', 'blobs', gitHashOf(CLIP)),
    );
    expect(readFileSync(join(root, 'refs', 'main'), 'utf8')).toBe(commit);
    expect(listed(join(root, 'blobs'))).toEqual(
      [sha256Of(model), ...[files['config.json'], CLIP, files['tokenizer.json']].map(gitHashOf)].toSorted(),
    );
    expect(pulled.model).toMatchObject({
      name: 'org/repo',
      licence: { spdx: 'mit', url: `${hub.url}/org/repo` },
      transform: null,
    });
    expect(cdn.requests.length).toBe(1);
    expect((await findTransform(pulled.path))?.transform.options).toMatchObject({ resize: 64 });
    await openModel(pulled.path);

    const requests = hub.requests.length;
    const again = await pull();
    expect(again.files.every(({ isNew }) => !isNew)).toBe(true);
    // The only request is for the list.
    expect([hub.requests.length, cdn.requests.length]).toEqual([requests + 1, 1]);
  });

  it('uses files that Python’s huggingface_hub has fetched, and replaces damaged ones', async () => {
    const { cache, commit, cdn } = await visit();
    const root = join(cache, 'models--org--repo');
    mkdirSync(join(root, 'blobs'), { recursive: true });
    mkdirSync(join(root, 'snapshots', commit, 'onnx'), { recursive: true });
    writeFileSync(join(root, 'blobs', sha256Of(model)), model);
    symlinkSync(
      `../../../blobs/${sha256Of(model)}`,
      join(root, 'snapshots', commit, 'onnx/vision_model.onnx'),
    );
    const { files: first, path } = await pull();
    expect(first[0]).toMatchObject({ isNew: false, checked: 'list' });
    expect(cdn.requests.length).toBe(0);
    writeFileSync(
      join(root, 'blobs', sha256Of(model)),
      model.map((byte) => byte ^ 1),
    );
    expect((await pull()).files[0]).toMatchObject({ isNew: true });
    expect(readFileSync(path).equals(model)).toBe(true);
  });

  it('reads files that are no links, as Python writes them where links are impossible', async () => {
    const { cache, commit, cdn } = await visit();
    const place = join(cache, 'models--org--repo', 'snapshots', commit, 'onnx');
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'vision_model.onnx'), model);
    const { files: pulled } = await pull();
    expect(pulled[0]).toMatchObject({ isNew: false });
    expect(cdn.requests.length).toBe(0);
    expect(lstatSync(pulled[0]!.path).isSymbolicLink()).toBe(false);
  });

  it('writes files instead of links where the system has none', async () => {
    const { cdn } = await visit();
    isWithoutLinks = true;
    try {
      const { files: pulled, path } = await pull();
      expect(pulled.some((file) => lstatSync(file.path).isSymbolicLink())).toBe(false);
      expect(readFileSync(path).equals(model)).toBe(true);
      expect((await pull()).files.every(({ isNew }) => !isNew)).toBe(true);
    } finally {
      isWithoutLinks = false;
    }
    expect(cdn.requests.length).toBe(1);
  });

  it.each([
    ['fp16', 'onnx/vision_model_fp16.onnx', {}],
    ['a file', 'onnx/text_model.onnx', { file: 'onnx/text_model.onnx' }],
  ])('fetches a variant or a file: %s', async (variant, name, given: Options<PullOptions>) => {
    await visit();
    const options = 'file' in given ? given : { variant };
    expect((await pull('hf:org/repo', options)).files[0]).toMatchObject({ name });
    const part = 'file' in given ? name : variant;
    expect((await pull(`hf:org/repo#${part}`)).files[0]).toMatchObject({ name, isNew: false });
  });

  it('fetches a tag and a commit, and remembers what the tag means', async () => {
    const { cache, commit } = await visit({ tags: ['v1', 'refs/pr/2'] });
    await pull('hf:org/repo@v1');
    await pull('hf:org/repo@refs/pr/2');
    await pull(`hf:org/repo@${commit}`);
    const refs = join(cache, 'models--org--repo', 'refs');
    expect(listed(refs)).toEqual(['refs', 'refs/pr', 'refs/pr/2', 'v1']);
    expect(readFileSync(join(refs, 'v1'), 'utf8')).toBe(commit);
  });

  it('asks for sizes and checksums where the list leaves them out', async () => {
    const { cdn } = await visit({ isTerse: true });
    const { files: pulled } = await pull();
    expect(pulled[0]).toMatchObject({ sha256: sha256Of(model), checked: 'list', isNew: true });
    expect(cdn.requests.length).toBe(1);
  });

  it('resumes at the CDN', async () => {
    const { cdn } = await visit({
      send: (request, response, bytes, nth) => {
        if (nth === 1) sendCut(request, response, bytes, 5000, '"cdn"');
        else sendFile(request, response, bytes, '"cdn"');
      },
    });
    expect((await pull()).files[0]).toMatchObject({ isNew: true });
    expect(cdn.requests.map(({ headers }) => headers.range)).toEqual([undefined, 'bytes=5000-']);
  });

  it('refuses wrong content, large and small', async () => {
    const { cache } = await visit({
      send: (request, response, bytes) =>
        sendFile(
          request,
          response,
          bytes.map((byte) => byte ^ 1),
        ),
    });
    expect(await failureOf(pull(), TapirError)).toMatchObject({
      code: 'CHECKSUM_MISMATCH',
      details: { expected: sha256Of(model) },
    });
    expect(listed(join(cache, 'models--org--repo', 'blobs'))).toEqual([]);
    const small = { ...files };
    await visit({ files: small });
    // The list is from before, the content from after.
    const pulling = pull('hf:org/repo', {
      onProgress: () => {
        small['tokenizer.json'] = text({ version: '2.0' });
      },
    });
    expect(await failureOf(pulling, TapirError)).toMatchObject({
      code: 'CHECKSUM_MISMATCH',
      details: { expected: gitHashOf(files['tokenizer.json']) },
    });
  });
});

describe('weights in files of their own', () => {
  const weights = { 'model.onnx_data': 1, 'model.onnx_data_1': 2, 'model.onnx.data': 3, 'unusual/w.bin': 4 };
  const graph = modelBytes({
    inputs: ['x'],
    outputs: ['y3'],
    nodes: Object.keys(weights).map((name, i) => ({
      op: 'Mul',
      inputs: [i === 0 ? 'x' : `y${i - 1}`, name],
      outputs: [`y${i}`],
    })),
    initializers: Object.fromEntries(
      Object.keys(weights).map((location) => [location, { dims: [1], external: { location } }]),
    ),
  });
  const data = Object.fromEntries(
    Object.entries(weights).map(([name, factor]) => [
      `onnx/${name}`,
      new Uint8Array(Float32Array.of(factor).buffer),
    ]),
  );
  const repository = { ...data, 'onnx/model.onnx': graph, 'onnx/model_q4.onnx_data': model };

  it('come along under the usual names, and under those that the graph states, and run', async () => {
    await visit({ files: repository });
    const { files: pulled, path } = await pull();
    expect(pulled.map(({ name }) => name).toSorted()).toEqual(
      [...Object.keys(data), 'onnx/model.onnx'].toSorted(),
    );
    await using extractor = await createFeatureExtractor(path, ['y3']);
    const x = { dtype: 'float32', dims: [1], data: Float32Array.of(5) } as const;
    expect((await extractor.run(x))['y3']!.data).toEqual(Float32Array.of(5 * 24));
  });

  it('are required for a model to count as cached', async () => {
    const { cache, commit } = await visit({ files: repository });
    await pull();
    const reference = parseRepositoryReference('hf:org/repo');
    expect(await findCachedRepository(reference, true)).not.toBeNull();
    rmSync(join(cache, 'models--org--repo', 'snapshots', commit, 'onnx/unusual/w.bin'));
    expect(await findCachedRepository(reference, true)).toBeNull();
  });
});

describe('a token', () => {
  const token = 'hf_secretOfTheTest';

  it('opens a gated repository, and goes to the hub only', async () => {
    const { hub, cdn } = await visit({ token });
    vi.stubEnv('HF_TOKEN', ` ${token}\n`);
    await pull();
    expect(hub.requests.every(({ headers }) => headers.authorization === `Bearer ${token}`)).toBe(true);
    expect(cdn.requests.length).toBe(1);
    expect(cdn.requests[0]!.headers.authorization).toBeUndefined();
  });

  it('is read from the token file too', async () => {
    const { cache } = await visit({ token });
    writeFileSync(join(mkdirAt(dirname(cache)), 'token'), `${token}\n`);
    await pull();
    const { cache: other } = await visit({ token });
    const path = join(mkdirAt(dirname(other)), 'elsewhere');
    writeFileSync(path, token);
    vi.stubEnv('HF_TOKEN_PATH', path);
    await pull();
  });

  it('that is missing or refused gives an error that says what to do, without the token', async () => {
    const { url, cache } = await visit({ token });
    const missing = await failureOf(pull(), TapirError);
    expect(missing).toMatchObject({ code: 'DOWNLOAD_FAILED', details: { url: `${url}/org/repo` } });
    expect(missing.message).toContain(`accept its conditions at ${url}/org/repo, and set HF_TOKEN`);
    vi.stubEnv('HF_TOKEN', 'hf_other');
    const refused = await failureOf(pull(), TapirError);
    expect(refused.message).toMatch(/is gated or private .*403.*check that the token may read/);
    expect(JSON.stringify([refused.message, refused.details, String(refused.cause)])).not.toContain(
      'hf_other',
    );
    await visit({ token, isTokenInvalid: true });
    vi.stubEnv('HF_TOKEN', 'hf_old');
    const invalid = await failureOf(pull(), TapirError);
    expect(invalid.message).toMatch(/does not accept the token .*: set HF_TOKEN to a valid one/);
    expect(invalid.message).not.toContain('hf_old');
    vi.stubEnv('HF_TOKEN', 'hf_two words');
    const strange = await failureOf(pull(), TapirError);
    expect(strange).toMatchObject({ code: 'OPTION_INVALID' });
    expect(strange.message).not.toContain('words');
    expect(existsSync(join(cache, 'models--org--repo', 'snapshots'))).toBe(false);
  });
});

/** Makes a folder, and returns its path. */
function mkdirAt(folder: string): string {
  mkdirSync(folder, { recursive: true });
  return folder;
}

describe('a hub that says no', () => {
  it('has no such repository, revision, file or variant', async () => {
    await visit();
    expect((await failureOf(pull('hf:org/other'), TapirError)).message).toMatch(
      /there is no repository "org\/other", or it is/,
    );
    expect((await failureOf(pull('hf:org/repo@v9'), TapirError)).message).toContain(
      'org/repo has no revision "v9"',
    );
    const file = await failureOf(pull('hf:org/repo', { file: 'onnx/visoin_model.onnx' }), TapirError);
    expect(file).toMatchObject({
      code: 'NAME_NOT_FOUND',
      details: {
        names: [
          {
            request: 'onnx/visoin_model.onnx',
            nearest: expect.arrayContaining(['onnx/vision_model.onnx']) as string[],
          },
        ],
      },
    });
    expect((await failureOf(pull('hf:org/repo', { variant: 'q4' }), TapirError)).message).toMatch(
      /has no model variant "q4": it has .*vision_model_fp16/,
    );
  });

  it('has several models, and lists them', async () => {
    await visit({ files: { 'a/model.onnx': model, 'b/model.onnx': model } });
    const error = await failureOf(pull(), TapirError);
    expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'file' } });
    expect(error.message).toContain('a/model.onnx, b/model.onnx');
  });

  it.each([
    'hf:',
    'hf:org/repo/more',
    'hf:../repo',
    'hf:org/..',
    'hf:org/repo@../main',
    'hf:org/repo@',
    'hf:org/repo#../model.onnx',
    'hf:org--repo/x',
  ])('is not asked for %s', async (reference) => {
    const { hub } = await visit();
    expect(await failureOf(pull(reference), TapirError)).toMatchObject({ code: 'OPTION_INVALID' });
    expect(hub.requests.length).toBe(0);
  });

  it('lists names that leave the folder: they are ignored', async () => {
    await visit({ files: { ...files, '../config.json': text({}), 'onnx/../../config.json': text({}) } });
    expect((await pull()).files.map(({ name }) => name).toSorted()).toEqual(ORDINARY);
  });

  it('sends no list', async () => {
    const { hub } = await visit({ cardData: {} });
    vi.stubEnv('HF_ENDPOINT', `${hub.url}/org/repo/resolve/main/config.json?`);
    expect(await failureOf(pull(), TapirError)).toMatchObject({ code: 'DOWNLOAD_FAILED' });
  });
});

describe('HF_HUB_OFFLINE', () => {
  it('uses the cache and sends no request', async () => {
    const { hub } = await visit();
    const online = await pull();
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    const requests = hub.requests.length;
    const offline = await pull();
    expect(offline.path).toBe(online.path);
    expect(offline.files.map(({ name }) => name).toSorted()).toEqual(ORDINARY);
    expect(hub.requests.length).toBe(requests);
    const error = await failureOf(pull('hf:org/other'), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain('HF_HUB_OFFLINE');
  });
});
