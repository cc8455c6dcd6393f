/** Projects of users, by their TypeScript settings: results need no cast, and an editor shows the main call in a few lines. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

// Below the project, so that the package resolves by its own name.
const folder = projectPath('build/projects-test');
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TSC = projectPath('node_modules/typescript/bin/tsc');
const USE = `
  import { createFeatureExtractor, embedImages, type FeatureExtractor } from 'onnx-tapir';
  import { Pipeline } from 'onnx-tapir/stages';
  const feeds = { dtype: 'float32', dims: [1], data: new Float32Array(1) } as const;
  export async function use(extractor: FeatureExtractor<'pooled'>): Promise<number[]> {
    const devices = ['cuda:0', 'cuda:1'] as const;
    const single = await createFeatureExtractor('m.onnx', { layer4: 'features' });
    const several = await createFeatureExtractor('m.onnx', { layer4: 'features' }, { devices: ['cuda:0', 'cuda:1'] });
    const staged = await Pipeline.create('m.onnx', { layer4: 'features' }, { devices });
    const vectors: Float32Array[] = [(await extractor.run(feeds)).pooled.data];
    for (const one of [single, several, staged]) vectors.push((await one.run(feeds)).features.data);
    for await (const { features } of embedImages(single, 'photos')) if (features) vectors.push(features.features.data);
    const halves = await createFeatureExtractor('m.onnx', ['fc'], { outputDtype: 'float16' });
    const bits: Uint16Array = (await halves.run(feeds)).fc.data;
    const kept = await createFeatureExtractor('m.onnx', ['ids'], { outputDtype: 'keep' });
    const { ids } = await kept.run(feeds);
    if (ids.dtype === 'int64') console.log(ids.data[0]! + 1n, bits.length);
    return vectors.flatMap((vector) => Array.from(vector).map((value) => value * 2));
  }
`;
const WRONG = `
  import { createFeatureExtractor } from 'onnx-tapir';
  export async function use(): Promise<Float32Array> {
    const kept = await createFeatureExtractor('m.onnx', ['ids'], { outputDtype: 'keep' });
    return (await kept.run({ dims: [0], data: new Float32Array() })).ids.data;
  }
`;

const SETTINGS = {
  'strict, ES modules': ['use.mts', '--strict', '--exactOptionalPropertyTypes', '--module', 'nodenext'],
  'strict, a bundler': ['use.ts', '--strict', '--module', 'esnext', '--moduleResolution', 'bundler'],
  'strict, CommonJS': ['use.cts', '--strict', '--module', 'nodenext'],
  loose: ['use.mts', '--strict', 'false', '--module', 'nodenext'],
};

/** What the compiler says of both, a line each. */
function compile([file, ...flags]: readonly string[]): string[] {
  const files = [file!, `wrong-${file!}`].map((name) => join(folder, name));
  [USE, WRONG].forEach((code, i) => writeFileSync(files[i]!, code));
  const common = ['--ignoreConfig', '--noEmit', '--target', 'es2023', '--types', 'node', '--pretty', 'false'];
  try {
    return [execFileSync(process.execPath, [TSC, ...common, ...flags, ...files], { encoding: 'utf8' })];
  } catch (error) {
    return (error as { stdout: string }).stdout.trim().split(/\n(?! )/);
  }
}

it.each(Object.entries(SETTINGS))('%s: float32 without a cast, and none of what is kept', (_, setting) => {
  expect(compile(setting)).toEqual([
    expect.stringMatching(/wrong-use\.\w+\(\d+,\d+\): error [\s\S]*'Float32Array</),
  ]);
});

interface Reply {
  readonly id?: number;
  readonly method?: string;
  readonly result?: { readonly contents: { readonly value: string } };
}

/** What an editor shows for a function at each of its calls: its signature. */
async function hover(code: string, name: string): Promise<string[]> {
  const uri = pathToFileURL(join(folder, 'hover.ts')).href;
  writeFileSync(join(folder, 'hover.ts'), code);
  const server = spawn(process.execPath, [TSC, '--lsp', '--stdio'], { cwd: folder });
  const replies = new Map<number, (reply: Reply) => void>();
  let id = 0;
  const send = (message: object): void => {
    const text = JSON.stringify({ jsonrpc: '2.0', ...message });
    server.stdin.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  };
  const ask = (method: string, params: object): Promise<Reply> =>
    new Promise((resolve) => {
      replies.set(++id, resolve);
      send({ id, method, params });
    });
  let received = Buffer.alloc(0);
  server.stdout.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    for (;;) {
      const start = received.indexOf('\r\n\r\n') + 4;
      const end = start + Number(/Content-Length: (\d+)/.exec(received.toString('latin1', 0, start))?.[1]);
      if (start < 4 || received.length < end) return;
      const message = JSON.parse(received.toString('utf8', start, end)) as Reply;
      received = received.subarray(end);
      if (message.method === undefined) replies.get(message.id!)?.(message);
      else if (message.id !== undefined) send({ id: message.id, result: null });
    }
  });
  const capabilities = { textDocument: { hover: { contentFormat: ['markdown'] } } };
  try {
    await ask('initialize', { processId: process.pid, rootUri: pathToFileURL(folder).href, capabilities });
    send({ method: 'initialized', params: {} });
    const textDocument = { uri, languageId: 'typescript', version: 1, text: code };
    send({ method: 'textDocument/didOpen', params: { textDocument } });
    const lines = code.split('\n');
    const shown: string[] = [];
    for (const [line, text] of lines.entries()) {
      const character = text.indexOf(`${name}(`) + 1;
      if (character === 0) continue;
      const position = { line, character };
      const { result } = await ask('textDocument/hover', { textDocument: { uri }, position });
      shown.push(/```\w*\n([\s\S]*?)\n```/.exec(result?.contents.value ?? '')?.[1] ?? '');
    }
    return shown;
  } finally {
    server.kill();
  }
}

describe('createFeatureExtractor in an editor', () => {
  const calls = [
    `createFeatureExtractor('resnet50.onnx', { layer4: 'features', avgpool: 'pooled' })`,
    `createFeatureExtractor('dino.onnx', { norm: 'tokens' }, {
      devices: ['cuda:0', 'cuda:1'], pool: 'cls', l2Normalize: true, session: { graphOptimizationLevel: 'all' },
      transform: { resize: 256, crop: 224, mean: [0.5, 0.5, 0.5] },
    })`,
    `createFeatureExtractor('clip.onnx', ['image_embeds', 'ids'], { outputDtype: 'keep', device: 'cuda' })`,
  ];
  it('takes at most 12 lines', async () => {
    const code = calls.map((call, i) => `export const made${i} = await ${call};\n`).join('');
    const imported = "import { createFeatureExtractor } from 'onnx-tapir';\n";
    const shown = await hover(imported + code, 'createFeatureExtractor');
    expect(shown).toHaveLength(calls.length);
    for (const one of shown) {
      expect(one).toMatch(/function createFeatureExtractor<[\s\S]+Promise<(FeatureExtractor|DataParallel)<"/);
      expect(one.split('\n').length).toBeLessThanOrEqual(12);
    }
  });
});
