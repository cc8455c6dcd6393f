/** What runs on a GPU machine, as far as it runs without one. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../support/fixtures.js';
import { runNode } from '../support/run.js';

const scratch = scratchFolder();

interface Report {
  readonly machine: { readonly cpu: string };
  readonly device: string | null;
  readonly results: Readonly<Record<string, unknown>>;
  readonly problems: Readonly<Record<string, string>>;
}

describe('bench/gpu/measure', () => {
  // Ten seconds: what fails here costs no minute of a GPU that is lent.
  it('takes all its measurements, on the CPU and a tiny model', async () => {
    const out = join(scratch, 'cpu.json');
    const args = ['--device', 'cpu', '--model', 'tiny', '--sizes', '1,2', '--seconds', '0.01', '--out', out];
    const ended = await runNode(['--import', 'tsx', projectPath('bench/gpu/measure.ts'), ...args]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const report = JSON.parse(readFileSync(out, 'utf8')) as Report;
    expect(report).toMatchObject({ device: 'cpu', problems: {} });
    expect(report.machine.cpu).not.toBe('');
    expect(report.results).toMatchObject({
      equalToCpu: { isEqual: true },
      sizes: [{ rows: 1 }, { rows: 2 }],
    });
    for (const name of ['sessions', 'newSizes', 'transfers', 'int8'])
      expect(report.results).toHaveProperty(name);
    expect(report.results).toMatchObject({
      gather: { 'largest difference': { layer1: expect.any(Number) as number } },
      stages: { device: 'cpu → cpu' },
      training: { losses: expect.any(Array) as number[] },
      plugins: { 'CUDA graphs': { refused: expect.stringContaining('OPTION_INVALID') as string } },
    });
    for (const name of ['avgpool', 'layer1 and avgpool'])
      for (const precision of ['float32', 'float16']) {
        const { ways } = report.results[`ways, ${name}, ${precision}`] as { ways: Record<string, unknown> };
        expect(Object.keys(ways)).toHaveLength(7);
        for (const way of Object.values(ways))
          expect(way).toMatchObject({ ratio: expect.any(Number) as number });
      }
  });
});

/** A kit whose Node is a script that says how it was called. */
function fakeKit(): string {
  const kit = join(scratch, 'kit');
  const runtime = join(scratch, 'runtime');
  const binding = join(runtime, 'node_modules/onnxruntime-node/bin/napi-v6/linux/x64');
  mkdirSync(binding, { recursive: true });
  mkdirSync(join(runtime, 'node_modules/onnx-tapir/dist/lib'), { recursive: true });
  writeFileSync(
    join(runtime, 'node'),
    '#!/bin/sh\necho "libs $LD_LIBRARY_PATH"; ls "$(dirname "$0")"/node_modules/onnxruntime-node/bin/napi-v6/linux/x64; echo "$@"\n',
  );
  chmodSync(join(runtime, 'node'), 0o755);
  const cuda = join(scratch, 'cuda');
  mkdirSync(cuda);
  writeFileSync(join(cuda, 'libonnxruntime_providers_cuda.so'), 'x'.repeat(3000));
  mkdirSync(join(kit, 'app/dist'), { recursive: true });
  writeFileSync(join(kit, 'app/measure.js'), '');
  let sums = '';
  for (const [name, folder] of [
    ['runtime', runtime],
    ['cuda', cuda],
  ] as const) {
    const archive = execFileSync('sh', ['-c', 'tar -C "$0" -cf - . | xz', folder]);
    const size = Math.ceil(archive.length / 3);
    for (let i = 0; i < 3; i++) {
      const part = archive.subarray(i * size, (i + 1) * size);
      const file = `${name}.tar.xz.part-0${i}`;
      writeFileSync(join(kit, file), part);
      sums += `${createHash('sha256').update(part).digest('hex')}  ${file}\n`;
    }
  }
  writeFileSync(join(kit, 'SHA256SUMS'), sums);
  return kit;
}

const hasTools = ['xz', 'tar', 'sha256sum', 'python3'].every((tool) => {
  try {
    return execFileSync('sh', ['-c', `command -v ${tool}`]).length > 0;
  } catch {
    return false;
  }
});

describe.skipIf(!hasTools)('bench/gpu/run.sh', () => {
  const script = projectPath('bench/gpu/run.sh');
  const packages = join(scratch, 'site-packages');
  const run = (...args: string[]): string =>
    execFileSync('bash', [script, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PYTHONPATH: packages },
    });

  it('joins the parts, puts the provider beside the binding and sets the library path', () => {
    const kit = fakeKit();
    const work = join(scratch, 'work');
    const printed = run(
      '--kit',
      kit,
      '--work',
      work,
      '--cuda-libs',
      '/opt/a:/opt/b',
      '--',
      '--model',
      'tiny',
    );
    expect(printed).toMatch(/^libs \/opt\/a:\/opt\/b/);
    expect(printed).toContain('libonnxruntime_providers_cuda.so');
    expect(printed).toMatch(/kit\/measure\.js --model tiny\n$/);
    expect(run('--kit', kit, '--work', work, '--tapir', '--', 'nodes', 'm.onnx')).toMatch(
      /dist\/lib\/bin\.cjs nodes m\.onnx\n$/,
    );
    const cudart = join(packages, 'nvidia/cu13/lib/libcudart.so.13');
    mkdirSync(dirname(cudart), { recursive: true });
    writeFileSync(cudart, '');
    expect(run('--kit', kit, '--work', work)).toMatch(/^libs .*site-packages\/nvidia\/cu13\/lib/);
    const damaged = join(scratch, 'damaged');
    cpSync(kit, damaged, { recursive: true });
    writeFileSync(join(damaged, 'cuda.tar.xz.part-01'), 'something else');
    expect(() => run('--kit', damaged, '--work', join(scratch, 'other'))).toThrow(/missing or damaged/);
    expect(run('--kit', damaged, '--work', join(scratch, 'cpu'), '--no-cuda')).not.toContain(
      'providers_cuda',
    );
  });
});
