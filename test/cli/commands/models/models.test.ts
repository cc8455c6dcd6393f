/** `tapir models`, and known names where a model file is wanted. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sendFile, startServer } from '../../../support/file-server.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { startHub } from '../../../support/hub-server.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
// Where the cache lies by the rules of Linux, macOS and Windows.
const env = { XDG_CACHE_HOME: scratch, HOME: scratch, LOCALAPPDATA: scratch };
const cache = join(
  scratch,
  process.platform === 'darwin' ? 'Library/Caches/onnx-tapir/models' : 'onnx-tapir/models',
);
const bytes = tinyResNet();
const sha256 = createHash('sha256').update(bytes).digest('hex');

async function writeList(file: { sha256: string | null }): Promise<{ path: string; requests: unknown[] }> {
  const server = await startServer((request, response) => sendFile(request, response, bytes));
  const path = join(scratch, `list-${file.sha256?.slice(0, 4) ?? 'none'}.json`);
  const model = {
    name: 'tiny',
    description: 'A tiny model',
    files: [{ name: 'tiny.onnx', url: `${server.url}/tiny.onnx`, sizeBytes: bytes.length, ...file }],
    licence: { spdx: 'MIT', url: 'https://example.org/licence' },
    transform: 'ImageNet1K_V1',
    inputSize: [64, 64],
    nodes: [{ name: 'avgpool', meaning: 'pooled features' }],
    note: 'Untrained.',
    source: 'https://example.org',
  };
  writeFileSync(path, JSON.stringify({ models: [model] }));
  return { path, requests: server.requests };
}

describe('tapir models list', () => {
  it('prints a table and JSON', async () => {
    const { code, stdout } = await runTapir(['models', 'list'], { env });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^name +size +licence +transform +ask for\n/);
    expect(stdout).toMatch(/\nresnet50-v1-12 +103 MB +Apache-2\.0 +ImageNet1K_V1 +resnetv17_pool1_fwd, /);
    const json = JSON.parse((await runTapir(['models', 'list', '--json'], { env })).stdout) as {
      name: string;
      cached: unknown;
    }[];
    expect(json.find(({ name }) => name === 'dinov2-small')).toMatchObject({ cached: null });
  });
});

describe('tapir models pull', () => {
  it('says the licence, downloads, says where it lies, and what to ask it for', async () => {
    const list = await writeList({ sha256 });
    const args = ['models', 'pull', 'tiny', '--manifest', list.path];
    const first = await runTapir(args, { env });
    expect(first).toMatchObject({ code: 0 });
    expect(first.stderr).toContain('licence: MIT (https://example.org/licence)');
    const path = join(cache, 'tiny/tiny.onnx');
    expect(first.stdout.endsWith(`\n${path}\n`)).toBe(true);
    expect(first.stdout).toContain('--return avgpool  pooled features');
    expect(readFileSync(path).equals(bytes)).toBe(true);
    const copy = join(scratch, 'copy.onnx');
    const again = await runTapir([...args, '--out', copy], { env });
    expect(again.stdout).toContain(`tiny.onnx: already there, `);
    expect(list.requests.length).toBe(1);
    expect(readFileSync(copy).equals(bytes)).toBe(true);
    const third = await runTapir([...args, '--out', copy], { env });
    expect(third).toMatchObject({ code: 4 });
    expect(third.stderr).toContain('[OUTPUT_EXISTS]');
    const listed = await runTapir(['models', 'list', '--manifest', list.path], { env });
    expect(listed.stdout).toMatch(/\ntiny .* cached\n/);
  });

  it('says that a checksum is not known', async () => {
    const { path } = await writeList({ sha256: null });
    const other = { ...env, XDG_CACHE_HOME: join(scratch, 'other'), HOME: join(scratch, 'other') };
    const run = await runTapir(['models', 'pull', 'tiny', '--manifest', path, '--json'], { env: other });
    expect(run.stderr).toContain('the first download is trusted');
    expect(JSON.parse(run.stdout)).toMatchObject({ files: [{ sha256, checked: 'first', isNew: true }] });
  });

  it('ends with 3 for a wrong file, and with 2 for an unknown name', async () => {
    const { path } = await writeList({ sha256: 'b'.repeat(64) });
    const wrong = await runTapir(['models', 'pull', 'tiny', '--manifest', path], { env });
    expect(wrong).toMatchObject({ code: 3, stdout: '' });
    expect(wrong.stderr).toContain('[CHECKSUM_MISMATCH]');
    const unknown = await runTapir(['models', 'pull', 'resnet50-v1-13'], { env });
    expect(unknown).toMatchObject({ code: 2, stdout: '' });
    expect(unknown.stderr).toContain('nearest: resnet50-v1-12');
  });
});

describe('a known name where a model file is wanted', () => {
  it('is the file in the cache, or how to get it', async () => {
    const missing = await runTapir(['nodes', 'resnet-50'], { env });
    expect(missing).toMatchObject({ code: 3 });
    expect(missing.stderr).toContain('tapir models pull resnet-50');
    mkdirSync(join(cache, 'resnet-50'), { recursive: true });
    writeFileSync(join(cache, 'resnet-50/resnet-50.onnx'), bytes);
    const found = await runTapir(['nodes', 'resnet-50'], { env });
    expect(found).toMatchObject({ code: 0 });
    expect(found.stdout).toContain('avgpool');
    const unknown = await runTapir(['nodes', 'resnet-51'], { env });
    expect(unknown.stderr).toContain('[MODEL_UNREADABLE]');
    expect(unknown.stderr).not.toContain('pull');
  });
});

describe('a repository of the hub', () => {
  const CLIP = { image_processor_type: 'CLIPImageProcessor', size: { shortest_edge: 64 }, crop_size: 64 };
  const files = {
    'config.json': Buffer.from('{}'),
    'preprocessor_config.json': Buffer.from(JSON.stringify(CLIP)),
    'onnx/vision_model.onnx': bytes,
  };
  const cardData = {
    license: 'other',
    license_name: 'tiny-licence',
    license_link: 'https://example.org/tiny',
  };
  const hubEnv = async (): Promise<NodeJS.ProcessEnv> => {
    const { url } = await startHub({ repository: 'org/tiny', files, cardData });
    return {
      ...env,
      HF_ENDPOINT: url,
      HF_HOME: join(scratch, 'hf', String(url.split(':').at(-1))),
      HF_HUB_OFFLINE: '',
    };
  };

  it('is pulled after its commit, size and licence are said; a copy takes the transform along', async () => {
    const hub = await hubEnv();
    const out = join(scratch, 'vision.onnx');
    const pulled = await runTapir(['models', 'pull', 'hf:org/tiny', '--out', out], { env: hub });
    expect(pulled.code, pulled.stderr).toBe(0);
    expect(pulled.stderr).toMatch(
      /^org\/tiny at [0-9a-f]{12}: onnx\/vision_model\.onnx and 2 more files, .* to download\nlicence: tiny-licence \(https:\/\/example\.org\/tiny\)\n$/,
    );
    expect(pulled.stdout).toMatch(/^onnx\/vision_model\.onnx: downloaded, .* \(as listed\)\n/);
    expect(readFileSync(out).equals(bytes)).toBe(true);
    const own = JSON.parse(readFileSync(`${out}.tapir.json`, 'utf8')) as object;
    expect(own).toMatchObject({ transform: { resize: 64 } });
    const again = await runTapir(['models', 'pull', 'hf:org/tiny#onnx/vision_model.onnx', '--json'], {
      env: hub,
    });
    expect(JSON.parse(again.stdout)).toMatchObject({
      name: 'org/tiny',
      licence: { spdx: 'tiny-licence' },
      files: [{ isNew: false }, { isNew: false }, { isNew: false }],
    });
  });

  it('is a model of the other commands: with --yes, later without, and offline', async () => {
    const hub = await hubEnv();
    const refused = await runTapir(['nodes', 'hf:org/tiny'], { env: hub });
    expect(refused).toMatchObject({ code: 3, stdout: '' });
    expect(refused.stderr).toContain('licence: tiny-licence');
    expect(refused.stderr).toMatch(/run "tapir models pull hf:org\/tiny", or add --yes \[MODEL_UNREADABLE\]/);
    const photo = projectPath('examples/photos/sea/sea-1.jpg');
    const args = [
      'embed',
      '-',
      '--model',
      'hf:org/tiny',
      '--return',
      'avgpool=v',
      '--out',
      '-',
      '--format',
      'jsonl',
    ];
    const embedded = await runTapir([...args, '--yes'], { env: hub, input: `${photo}\n` });
    expect(embedded.code, embedded.stderr).toBe(0);
    expect(embedded.stderr).toMatch(
      /to download\nlicence: .*\ntransform: .*preprocessor_config\.json \(transformers/,
    );
    const later = await runTapir(['nodes', 'hf:org/tiny'], {
      env: { ...hub, HF_ENDPOINT: 'http://127.0.0.1:9', HF_HUB_OFFLINE: '1' },
    });
    expect(later.code, later.stderr).toBe(0);
    expect(later.stdout).toContain('avgpool');
  });
});
