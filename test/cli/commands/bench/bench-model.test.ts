/** `tapir bench model`: what it prints, for tiny models and no time at all; the figures themselves are not looked at. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  hasFallen,
  pickBatch,
  type BatchMeasurement,
  type MeasureModelReport,
} from '../../../../src/cli/measure/measure-model.js';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { hasOpenVino } from '../../../support/openvino.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'tiny.onnx');
writeFileSync(model, tinyResNet());
const WAIT = 'measuring: a row follows for each batch size\n';
const bench = (...args: string[]) => runTapir(['bench', 'model', ...args, '--set', 'seconds=0']);

function write(name: string, dims: readonly (number | string)[]): string {
  const path = join(scratch, name);
  const spec = {
    inputs: [{ name: 'x', dims }],
    outputs: [{ name: 'y', dims }],
    nodes: [{ op: 'Neg', inputs: ['x'], outputs: ['y'] }],
  };
  writeFileSync(path, modelBytes(spec));
  return path;
}

describe('tapir bench model', () => {
  it('prints a table and the batch to use', async () => {
    const ended = await bench(model, '--return', 'avgpool', '--batches', '1,2');
    expect(ended).toMatchObject({ code: 0, stderr: WAIT });
    expect(ended.stdout).toMatch(/^ *batch +sessions +images\/s +min +max +ms per run +first ms/);
    expect(ended.stdout).toMatch(/\n +1 +1 +[\d.]+ .*\n +2 +1 +[\d.]+ /);
    expect(ended.stdout).toMatch(
      /\nbatch [12] on cpu: [\d.]+ images\/s, the smallest within 3 % of the most/,
    );
    expect(ended.stdout).toMatch(
      /\nfastest here: --engine onnxruntime --set binding=(?:c|node) --precision float32 --batch [12] --set sessions=1\n/,
    );
  });

  it('compares sessions on several devices, as JSON', async () => {
    const flags = ['--batches', '2,1,2', '--set', 'sessions=1,2', '--devices', 'cpu:0,cpu:1', '--json'];
    const ended = await bench(model, '--return', 'avgpool=pooled', ...flags);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const report = JSON.parse(ended.stdout) as MeasureModelReport;
    expect(report).toMatchObject({ devices: ['cpu:0', 'cpu:1'], fixedBatch: null, notes: [] });
    expect(report.measured.map((each) => [each.sessionsPerDevice, each.rows])).toEqual([
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
    ]);
    expect(report.measured).toContainEqual(report.best);
    for (const { rowsPerSecond, msPerRun, firstMs } of report.measured) {
      expect(rowsPerSecond.min).toBeGreaterThan(0);
      expect(rowsPerSecond.median).toBeGreaterThanOrEqual(rowsPerSecond.min);
      expect(rowsPerSecond.max).toBeGreaterThanOrEqual(rowsPerSecond.median);
      expect(Math.min(msPerRun, firstMs)).toBeGreaterThan(0);
    }
  });

  it('says that a fixed batch takes multiples only', async () => {
    const fixed = write('fixed.onnx', [3, 8]);
    // The outputs of the graph are the default.
    const ended = await bench(fixed, '--batches', '3,6');
    expect(ended).toMatchObject({ code: 0, stderr: WAIT });
    expect(ended.stdout).toContain('note: the graph has a fixed batch of 3: only multiples of it can run');
    const odd = await bench(fixed, '--return', 'y', '--batches', '3,4');
    expect(odd.code).toBe(2);
    expect(odd.stderr).toContain('multiples of 3');
    const dynamic = await bench(write('open.onnx', ['n', 8]), '--return', 'y', '--batches', '3,4');
    expect(dynamic.stdout).not.toContain('note:');
  });

  it('stops at a size that fails, and reports those before', async () => {
    const path = join(scratch, 'one-row.onnx');
    const dims = ['n', 8];
    const initializers = { w: { dims: [4, 8], values: Array.from({ length: 32 }, () => 1) } };
    const nodes = [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }];
    writeFileSync(
      path,
      modelBytes({ inputs: [{ name: 'x', dims }], outputs: [{ name: 'y', dims }], initializers, nodes }),
    );
    const ended = await bench(path, '--return', 'y');
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain('note: a batch of 2 failed, so no larger one was tried: replica 0 on cpu');
    const first = await bench(path, '--return', 'y', '--batches', '2');
    expect(first.code).toBe(3);
  });

  it('compares engines and precisions, and says which are not possible', async () => {
    const all = ['--engine', 'all', '--precision', 'all', '--batches', '2'];
    const ended = await bench(model, '--return', 'avgpool', ...all);
    expect(ended).toMatchObject({ code: 0, stderr: WAIT });
    expect(ended.stdout).toMatch(/^engine +precision +batch +sessions +images\/s +min +max +×/);
    expect(ended.stdout).toMatch(/\nonnxruntime +float32 +2 +1 +[\d.]+ .* 1\.00/);
    expect(ended.stdout).toMatch(
      /\nfastest here: --engine \w+(?: --set binding=\w+)? --precision \w+ --batch 2 --set sessions=1\n/,
    );
    expect(ended.stdout).toContain('note: precision "bfloat16" is not possible with engine "onnxruntime"');
    if (hasOpenVino) expect(ended.stdout).toMatch(/\nopenvino +float32 /);
    else expect(ended.stdout).toContain('tapir engines install openvino');
    const json = await bench(model, '--return', 'avgpool', '--precision', 'all', '--batches', '2', '--json');
    const { compared } = JSON.parse(json.stdout) as { readonly compared: readonly object[] };
    expect(compared).toMatchObject([
      { engine: 'onnxruntime', precision: 'float32', best: { rows: 2 } },
      { engine: 'onnxruntime', precision: 'bfloat16', impossible: expect.stringContaining('float32') },
      { engine: 'onnxruntime', precision: 'float16', best: { rows: 2 }, cosine: null },
      {
        engine: 'onnxruntime',
        precision: 'int8',
        impossible: expect.stringMatching(/only \d+ % of the weights/),
      },
    ]);
  });

  it.each([
    ['of a way', [], /\n +1 +1 +[\d.]+ .*\n/],
    ['of a comparison', ['--precision', 'all'], /\nonnxruntime +float32 +1 +1 .* 1\.00\n/],
  ])('prints each row %s as it is measured, so that a stop keeps it', async (_, more, row) => {
    const flags = ['bench', 'model', model, '--return', 'avgpool', '--set', 'seconds=1', ...more];
    const child = spawn(process.execPath, [projectPath('dist/lib/bin.cjs'), ...flags]);
    let stdout = '';
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
      if (row.test(stdout)) child.kill('SIGINT');
    });
    const [code] = (await once(child, 'close')) as [number | null];
    expect(code).toBe(130);
    expect(stdout).toMatch(row);
    expect(stdout).not.toContain('fastest');
  });

  it.each([
    [['--engine', 'tensorflow'], 'onnxruntime, openvino, all'],
    [['--precision', 'bfloat16'], 'PRECISION_UNSUPPORTED'],
  ])('refuses %j alone', async (flags, named) => {
    const ended = await bench(model, '--return', 'avgpool', ...flags);
    expect(ended.code).not.toBe(0);
    expect(ended.stderr).toContain(named);
  });

  it.each([
    [['--batches', '0'], '--batches[0]'],
    [['--batches', '1,x'], '--batches[1]'],
    [['--set', 'sessions=9'], '--set sessions[0]'],
    [['--device', 'gpu'], '--device'],
    [['--devices', 'cpu,cpu'], 'named twice'],
    [['--device', 'cpu', '--devices', 'cpu:0'], 'cannot be used with'],
    [['--return', 'layer9'], 'layer9'],
  ])('refuses %j', async (flags, named) => {
    const ended = await bench(model, '--return', 'avgpool', ...flags);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(named);
  });
});

describe('the choice of a batch', () => {
  const at = (rows: number, median: number, sessionsPerDevice = 1): BatchMeasurement => ({
    rows,
    sessionsPerDevice,
    rowsPerSecond: { median, min: median, max: median },
    msPerRun: 1,
    firstMs: 1,
  });

  it('is the smallest within 3 % of the best', () => {
    expect(pickBatch([at(1, 50), at(2, 96), at(4, 97.5), at(8, 100)]).rows).toBe(4);
    expect(pickBatch([at(4, 99), at(4, 100, 2), at(2, 98, 2)])).toEqual(at(2, 98, 2));
    expect(pickBatch([at(4, 100, 2), at(4, 99)])).toEqual(at(4, 99));
  });

  it('stops after two sizes below the best, not after one', () => {
    expect(hasFallen([at(1, 100)])).toBe(false);
    expect(hasFallen([at(1, 100), at(2, 50)])).toBe(false);
    expect(hasFallen([at(1, 100), at(2, 50), at(4, 99)])).toBe(false);
    expect(hasFallen([at(1, 100), at(2, 50), at(4, 90)])).toBe(true);
  });
});
