/** Text towers of repositories: downloaded with their tokenizers on first use, and found in the cache. The hub is a local server. */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDataset, TapirError } from 'onnx-tapir';
import { classifyZeroShot } from 'onnx-tapir/features';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { findTextModels, type TextModels } from '../../../src/cli/flags/find-text-models.js';
import type { Terminal } from '../../../src/cli/terminal/terminal.js';
import { failureOf } from '../../support/failure.js';
import { sendFile } from '../../support/file-server.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { startHub, type HubOptions, type HubServer } from '../../support/hub-server.js';
import { runTapir, type Ended } from '../../support/run.js';
import { writeHuggingFacePair, writeImmichPair } from '../../support/text-models.js';

const scratch = scratchFolder();
const photos = projectPath('examples/photos');
const clip = join(scratch, 'clip');
const immich = join(scratch, 'immich');
writeHuggingFacePair(clip, 'clip');
writeImmichPair(immich);
const OPEN_CLIP = {
  size: [32, 32],
  mode: 'RGB',
  mean: [0.48145466, 0.4578275, 0.40821073],
  std: [0.26862954, 0.26130258, 0.27577711],
  interpolation: 'bicubic',
  resize_mode: 'shortest',
};
writeFileSync(join(immich, 'visual/preprocess_cfg.json'), JSON.stringify(OPEN_CLIP));

type Files = HubOptions['files'];

function readFolder(folder: string): Files {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = names.filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(
    files.map((name) => [name.replaceAll('\\', '/'), readFileSync(join(folder, name))]),
  );
}

const CLIP = readFolder(clip);
const TEXT_FILES = ['config.json', 'onnx/text_model.onnx', 'tokenizer.json', 'tokenizer_config.json'];

/** The files whose content the hub was asked for, sorted. */
function downloaded({ hub }: HubServer, from = 0): string[] {
  const paths = hub.requests.slice(from).map(({ url = '' }) => /\/resolve\/[^/]+\/(.+)$/.exec(url)?.[1]);
  return paths.filter((path) => path !== undefined).toSorted();
}

describe.each([
  ['Hugging Face', clip, 'onnx/vision_model.onnx', 'onnx/text_model.onnx'],
  ['Immich', immich, 'visual/model.onnx', 'textual/model.onnx'],
])('a repository of %s, from the command line', (_whose, folder, image, text) => {
  const cache = join(folder, 'cache');
  const vectors = join(folder, 'vectors');
  const files = readFolder(folder);
  const model = `hf:org/pair#${image}`;
  const query = ['search', vectors, '--text', 'a dog on grass', '--json'];
  let hub: HubServer;

  function run(args: readonly string[], isOffline = false): Promise<Ended> {
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HUB_CACHE', cache);
    vi.stubEnv('HF_HUB_OFFLINE', isOffline ? '1' : '');
    return runTapir(args);
  }
  afterEach(() => vi.unstubAllEnvs());

  beforeAll(async () => {
    hub = await startHub({ repository: 'org/pair', files });
    const embed = ['embed', photos, '--model', model, '--yes', '--return', 'image_embeds', '--out', vectors];
    const made = await run(embed);
    expect(made.code, made.stderr).toBe(0);
    expect(downloaded(hub)).not.toContain(text);
  });

  it('offers the text tower before it is downloaded, and finds it offline later', async () => {
    const asked = hub.hub.requests.length;
    const refused = await run([...query, '--model', model]);
    expect(refused).toMatchObject({ code: 3, stdout: '' });
    expect(refused.stderr).toMatch(
      new RegExp(`org/pair at ${hub.commit.slice(0, 12)}: ${text} .* to download`),
    );
    expect(refused.stderr).toContain(`tapir models pull 'hf:org/pair@${hub.commit}#${text}'`);
    expect(downloaded(hub, asked)).toEqual([]);

    const found = await run([...query, '--model', model, '--yes']);
    expect(found.code, found.stderr).toBe(0);
    expect(downloaded(hub, asked)).toContain(text);
    // The tower's commit is that of the images, whatever the branch has become since.
    const revisions = hub.hub.requests
      .slice(asked)
      .map(({ url = '' }) => /\/revision\/([^?]+)/.exec(url)?.[1]);
    expect(new Set(revisions.filter((revision) => revision !== undefined))).toEqual(new Set([hub.commit]));
    const local = await run([...query, '--model', join(folder, image)]);
    expect(found.stdout).toBe(local.stdout);

    const later = hub.hub.requests.length;
    expect(await run([...query, '--model', model])).toMatchObject({
      code: 0,
      stdout: found.stdout,
      stderr: '',
    });
    const named = [...query, '--text-model', `hf:org/pair#${text}`];
    expect(await run(named, true)).toMatchObject({ code: 0, stdout: found.stdout });
    expect(hub.hub.requests.length).toBe(later);
  });

  it('labels images by words', async () => {
    const labels = join(folder, 'labels.txt');
    writeFileSync(labels, 'sea\ncity\n');
    const given = await run(['probe', vectors, '--zero-shot', labels, '--model', model, '--yes', '--json']);
    expect(given.code, given.stderr).toBe(0);
    const dataset = await openDataset(vectors);
    const expected = await classifyZeroShot(dataset, ['sea', 'city'], { model: join(folder, image) });
    expect((JSON.parse(given.stdout) as { labels: unknown }).labels).toEqual(expected);
  });
});

describe('findTextModels', () => {
  let count = 0;
  const said: string[] = [];
  const terminal = {
    signal: new AbortController().signal,
    isTerminal: false,
    err: (text: string) => said.push(text),
    confirm: () => Promise.resolve(false),
  } as unknown as Terminal;

  async function start(files: Files, options: Partial<HubOptions> = {}): Promise<HubServer> {
    const hub = await startHub({ repository: 'org/pair', files, ...options });
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HUB_CACHE', join(scratch, `cache-${++count}`));
    vi.stubEnv('HF_HUB_OFFLINE', '');
    return hub;
  }
  afterEach(() => {
    vi.unstubAllEnvs();
    said.length = 0;
  });

  const find = (flags: object): Promise<TextModels> => findTextModels({ yes: true, ...flags }, terminal);
  const without = (...names: string[]): Files =>
    Object.fromEntries(Object.entries(CLIP).filter(([name]) => !names.includes(name)));

  it('needs no image tower to find the text tower of a repository', async () => {
    const hub = await start(CLIP);
    const { model, textModel } = await find({ textModel: 'hf:org/pair' });
    expect(model).toBeUndefined();
    expect(readFileSync(textModel!)).toEqual(CLIP['onnx/text_model.onnx']);
    expect(downloaded(hub)).toEqual([...TEXT_FILES, 'preprocessor_config.json'].toSorted());
  });

  it('takes the text tower of the same variant, else that of float32', async () => {
    const fp16 = { 'onnx/vision_model_fp16.onnx': CLIP['onnx/vision_model.onnx']! };
    await start({ ...CLIP, ...fp16 });
    expect((await find({ textModel: 'hf:org/pair#fp16' })).textModel).toMatch(/text_model\.onnx$/);
    await start({ ...CLIP, ...fp16, 'onnx/text_model_fp16.onnx': CLIP['onnx/text_model.onnx']! });
    expect((await find({ textModel: 'hf:org/pair#fp16' })).textModel).toMatch(/text_model_fp16\.onnx$/);
  });

  it('takes a model that holds both towers', async () => {
    const hub = await start(CLIP);
    const { model } = await find({ model: 'hf:org/pair#onnx/model.onnx' });
    expect(readFileSync(model!)).toEqual(CLIP['onnx/model.onnx']);
    expect(downloaded(hub)).not.toContain('onnx/text_model.onnx');
  });

  it('completes a tower that another program has downloaded without its tokenizer', async () => {
    const hub = await start(CLIP);
    const reference = 'hf:org/pair#onnx/text_model.onnx';
    const { textModel } = await find({ textModel: reference });
    const root = join(textModel!, '../..');
    const blobs = join(root, '../../blobs');
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) rmSync(join(root, name));
    for (const blob of readdirSync(blobs))
      if (statSync(join(blobs, blob)).size !== CLIP['onnx/text_model.onnx']!.length)
        rmSync(join(blobs, blob));
    const asked = hub.hub.requests.length;
    expect(await find({ textModel: reference })).toEqual({ model: undefined, textModel });
    expect(downloaded(hub, asked)).toEqual([
      'config.json',
      'preprocessor_config.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
  });

  it.each([
    ['tokenizer.json', 'TOKENIZER_INVALID', 'the repository has no tokenizer.json'],
    ['onnx/text_model.onnx', 'NAME_NOT_FOUND', 'has no model file "onnx/text_model.onnx"'],
  ])('says that a repository lacks %s, and downloads nothing of the tower', async (name, code, reason) => {
    const hub = await start(without(name));
    const error = await failureOf(find({ textModel: 'hf:org/pair#onnx/vision_model.onnx' }), TapirError);
    expect(error).toMatchObject({ code, message: expect.stringContaining(reason) });
    expect(downloaded(hub)).toEqual([]);
    expect(said).toEqual([]);
  });

  it('refuses a tower whose content is not what the hub lists', async () => {
    await start(CLIP, {
      send: (request, response, bytes) =>
        sendFile(request, response, Buffer.from(bytes).fill(1, 0, 9), '"x"'),
    });
    const error = await failureOf(find({ textModel: 'hf:org/pair' }), TapirError);
    expect(error).toMatchObject({ code: 'CHECKSUM_MISMATCH' });
  });

  it('asks, and downloads nothing after a no', async () => {
    const hub = await start(CLIP);
    const refused = find({ textModel: 'hf:org/pair', yes: false });
    expect(await failureOf(refused, TapirError)).toMatchObject({ code: 'MODEL_UNREADABLE' });
    expect(said.join('')).toMatch(/onnx\/text_model\.onnx and 4 more files, .* to download\nlicence: mit/);
    expect(downloaded(hub)).toEqual([]);
  });
});
