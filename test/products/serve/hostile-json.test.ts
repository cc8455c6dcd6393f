/** JSON bodies that are made to be expensive: the service answers at once, in little memory, and goes on. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';

/** The default limit of JSON, except for the rest of the body. */
const SIZE = 8 * 2 ** 20 - 200;
const VECTORS = '/v1/embeddings';
const repeat = (text: string): string => text.repeat(Math.floor(SIZE / text.length));
const input = (items: string): string => `{"model":"tiny","input":${items}}`;

const BODIES: readonly (readonly [what: string, path: string, body: () => string])[] = [
  ['objects as items', VECTORS, () => input(`[${repeat('{},')}{}]`)],
  ['nested brackets', VECTORS, () => input(repeat('['))],
  ['nested and closed', VECTORS, () => input(repeat('[').slice(SIZE / 2) + repeat(']').slice(SIZE / 2))],
  ['nested objects', VECTORS, () => repeat('{"a":')],
  ['empty lists as items', VECTORS, () => input(`[${repeat('[],')}[]]`)],
  ['far too many token ids', VECTORS, () => input(`[${repeat('0,')}0]`)],
  ['many empty texts', VECTORS, () => input(`[${repeat('"",')}""]`)],
  ['many fields', VECTORS, () => `{"model":"tiny",${repeat('"a":1,')}"b":2}`],
  ['many URLs', '/embed', () => `{"urls":[${repeat('{},')}{}]}`],
  ['deep images', '/embed', () => `{"image":${repeat('[')}`],
];

describe('JSON that is made to be expensive', () => {
  const scratch = scratchFolder();
  let child: ChildProcess;
  let url: string;
  let stderr = '';

  beforeAll(async () => {
    const model = join(scratch, 'tiny.onnx');
    const sizes = { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 } as const;
    writeFileSync(model, buildResNet(0, sizes).bytes);
    const args = ['serve', '--model', model, '--return', 'avgpool=v', '--port', '0', '--json'];
    child = spawn(process.execPath, [projectPath('dist/lib/bin.cjs'), ...args]);
    child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const line = await new Promise<string>((resolve) =>
      child.stdout!.once('data', (chunk: Buffer) => resolve(chunk.toString())),
    );
    ({ url } = JSON.parse(line) as { url: string });
    // What the first request of a kind loads is not counted.
    const headers = { 'content-type': 'application/json' };
    await (await fetch(url + VECTORS, { method: 'POST', body: '{}', headers })).text();
  });
  afterAll(() => child.kill('SIGKILL'));

  /** Megabytes of the service: now, or at most since the last reset. */
  const memory = (field: 'VmRSS' | 'VmHWM'): number => {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)![1]) / 1024;
  };
  /** Seconds of CPU that the service has used. */
  const cpuSeconds = (): number => {
    const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(' ');
    return (Number(fields[13]) + Number(fields[14])) / 100;
  };

  it.skipIf(process.platform !== 'linux').each(BODIES)(
    '%s: refused, in little time and memory',
    async (_, path, make) => {
      const body = make();
      const before = memory('VmRSS');
      writeFileSync(`/proc/${child.pid}/clear_refs`, '5');
      const started = cpuSeconds();
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(url + path, { method: 'POST', body, headers });
      const text = await response.text();
      expect([response.status, text.length < 500], text.slice(0, 500)).toEqual([400, true]);
      // 28 seconds and 1 GB once.
      expect(cpuSeconds() - started).toBeLessThan(2);
      expect((memory('VmHWM') - before) / (body.length / 2 ** 20)).toBeLessThan(4);
      expect((await fetch(`${url}/health/ready`)).status).toBe(200);
      expect(stderr).not.toMatch(/defect|stack/);
    },
  );

  it('JSON beyond its own limit is refused from its length', async () => {
    const body = input(`[${'0,'.repeat(5 * 2 ** 20)}0]`);
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(url + VECTORS, { method: 'POST', body, headers });
    expect(response.status).toBe(413);
    expect(await response.text()).toMatch(/8388608 bytes/);
  });
});
