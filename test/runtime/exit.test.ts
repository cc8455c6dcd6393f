/** However a process ends while sessions run: the right exit code, never an abort (ort-node.md §1). */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { scratchFolder } from '../support/fixtures.js';
import { runScript } from '../support/run.js';

const model = join(scratchFolder(), 'model.onnx');
// Large enough that a run takes a good part of a second, so that every exit below falls into one.
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 32, size: 224, classes: 10 }).bytes);

const busy = `
import { createFeatureExtractor } from 'onnx-tapir';
const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['layer4']);
const batch = { dtype: 'float32', dims: [16, 3, 224, 224], data: new Float32Array(16 * 3 * 224 * 224) };
const run = () => extractor.run(batch);
await run();
const runs = [run(), run()];
for (const one of runs) one.catch(() => undefined);
console.log('busy');
await new Promise((resolve) => setTimeout(resolve, 20));
`;

describe('a process with a session at work', () => {
  it.each([
    ['process.exit', 'process.exit(7);', 7],
    [
      'an uncaught error',
      "setTimeout(() => { throw new Error('uncaught'); }); await new Promise(() => setInterval(() => 0, 1e6));",
      1,
    ],
    ['the end of the script', '', 0],
    ['close() while running', 'await extractor.close();', 0],
    [
      'a signal handler that exits',
      "process.on('SIGUSR2', () => process.exit(12)); process.kill(process.pid, 'SIGUSR2'); await runs[1];",
      12,
    ],
  ])(
    'ends by %s with its exit code',
    async (_way, code, expected) => {
      for (let round = 0; round < 3; round++) {
        const ended = await runScript(busy + code);
        expect(ended.signal, ended.stderr).toBeNull();
        expect(ended.code, ended.stderr).toBe(expected);
      }
    },
    120_000,
  );

  it('ends by SIGTERM as any process does', async () => {
    const ended = await runScript(`${busy} await runs[1];`, { signal: { name: 'SIGTERM', when: /busy/ } });
    expect(ended.signal).toBe('SIGTERM');
  });
});

describe('an idle session', () => {
  it('does not keep the process alive, closed or not', async () => {
    const code = `
      import { createFeatureExtractor } from 'onnx-tapir';
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['layer1']);
      console.log(extractor.device);`;
    for (const end of ['', 'await extractor.close(); await extractor.close();']) {
      const ended = await runScript(code + end);
      expect(ended, ended.stderr).toMatchObject({ code: 0, stdout: 'cpu\n' });
    }
  });
});

describe('telemetry of onnxruntime', () => {
  const create = `const { createFeatureExtractor } = await import('onnx-tapir');
    await (await createFeatureExtractor(${JSON.stringify(model)}, ['layer1'])).close();`;

  it('is off before the first session', async () => {
    const ended = await runScript(`${create} console.log(process.env.ORT_DISABLE_TELEMETRY);`, {
      env: { ORT_DISABLE_TELEMETRY: undefined },
    });
    expect(ended.stdout).toBe('1\n');
  });

  it('stays as the user set it', async () => {
    const ended = await runScript(`${create} console.log(process.env.ORT_DISABLE_TELEMETRY);`, {
      env: { ORT_DISABLE_TELEMETRY: '0' },
    });
    expect(ended.stdout).toBe('0\n');
  });

  it('writes no file about the model', async () => {
    const home = scratchFolder();
    const env = { HOME: home, XDG_CACHE_HOME: home, CI: undefined, ORT_DISABLE_TELEMETRY: undefined };
    await runScript(create, { env });
    const { readdirSync } = await import('node:fs');
    expect(readdirSync(home, { recursive: true })).toEqual([]);
  });
});

describe('inside a worker of the user', () => {
  it('sessions run in child processes, with telemetry off, and end with the worker', async () => {
    const inner = `
      import { parentPort } from 'node:worker_threads';
      import { createFeatureExtractor } from 'onnx-tapir';
      {
        const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { layer1: 'f' });
        const data = new Float32Array(3 * 224 * 224).fill(0.5);
        const { f } = await extractor.run({ dtype: 'float32', dims: [1, 3, 224, 224], data });
        parentPort.postMessage({ dims: f.dims, mean: f.data.reduce((a, b) => a + b) / f.data.length });
        await extractor.close();
      }`;
    const outer = `
      import { Worker } from 'node:worker_threads';
      import { createFeatureExtractor } from 'onnx-tapir';
      const worker = new Worker(${JSON.stringify(inner)}, { eval: true });
      const [result] = await new Promise((resolve, reject) => {
        worker.on('message', (message) => worker.on('exit', () => resolve([message])));
        worker.on('error', reject);
      });
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { layer1: 'f' });
      const data = new Float32Array(3 * 224 * 224).fill(0.5);
      const { f } = await extractor.run({ dtype: 'float32', dims: [1, 3, 224, 224], data });
      await extractor.close();
      console.log(JSON.stringify(result) === JSON.stringify({ dims: f.dims, mean: f.data.reduce((a, b) => a + b) / f.data.length }), result.dims.join());`;
    const ended = await runScript(outer);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stdout: 'true 1,128,56,56\n' });
  });
});
