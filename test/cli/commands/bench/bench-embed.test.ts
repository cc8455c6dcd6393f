/** `tapir bench embed`: what it prints; the figures are only looked at for making sense. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { EmbeddingReport } from '../../../../src/cli/measure/measure-embedding.js';
import { buildResNet } from '../../../../models/resnet.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { AUTO_TRANSFORM, runNode, runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const photos = projectPath('examples/photos');
const bench = (...flags: string[]) =>
  runTapir(['bench', 'embed', '--model', model, '--return', 'avgpool', ...flags]);
const short = ['--set', 'seconds=0.1', '--set', 'rounds=1'];

describe('tapir bench embed', () => {
  it('reports both ceilings, both together, and where the time goes', async () => {
    const ended = await bench(photos, ...short, '--batch', '4', '--json');
    expect(ended).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    const report = JSON.parse(ended.stdout) as EmbeddingReport;
    expect(report).toMatchObject({ device: 'cpu', batch: 4, images: 24 });
    const { decode, model: alone, endToEnd, decodePerThread } = report;
    for (const { imagesPerSecond, cpuSecondsPerImage } of [decode, alone, endToEnd, decodePerThread]) {
      expect(imagesPerSecond).toBeGreaterThan(0);
      expect(cpuSecondsPerImage).toBeGreaterThan(0);
    }
    expect(report.limit).toBeLessThan(Math.min(decode.imagesPerSecond, alone.imagesPerSecond));
    expect(report.ofLimit).toBeCloseTo(endToEnd.imagesPerSecond / report.limit, 5);
    expect(report.limitedBy).toBe(decode.imagesPerSecond < alone.imagesPerSecond ? 'decoding' : 'the model');
    for (const ms of Object.values(report.spent)) expect(ms).toBeGreaterThan(0);
    expect(report.busy.devices).toHaveLength(1);
  });

  it('looks for the fastest batch, and prints a table', async () => {
    const ended = await bench(photos, ...short, '--devices', 'cpu:0,cpu:1', '--set', 'normalize=graph');
    expect(ended.code).toBe(0);
    const steps = ended.stderr.replace(AUTO_TRANSFORM, '').trimEnd().split('\n');
    expect(steps.slice(0, 2)).toEqual([
      'looking for the fastest batch, which --batch states',
      expect.stringMatching(/^batches of 1: [\d.]+ images\/s$/),
    ]);
    expect(steps.slice(-6)).toEqual(
      ['warming up', 'round 1 of 1'].flatMap((round) =>
        ['decoding', 'the model', 'end to end'].map((what) => `${round}: ${what}`),
      ),
    );
    expect(ended.stdout).toMatch(
      /^24 images, batches of \d+, on cpu:0, cpu:1\n\n +images\/s +CPU-ms per image\n/,
    );
    expect(ended.stdout).toMatch(/\nend to end +[\d.]+ +[\d.]+\n\n\d+ % of what both could reach together/);
    expect(ended.stdout).toMatch(/resize [\d.]+, make the feed [\d.]+, model [\d.]+\n/);
  });

  it('refuses what cannot be measured', async () => {
    mkdirSync(join(scratch, 'bad'));
    writeFileSync(join(scratch, 'bad/a.jpg'), 'no image');
    const bad = await bench(join(scratch, 'bad'), ...short, '--batch', '2');
    expect(bad).toMatchObject({ code: 2 });
    expect(bad.stderr).toContain('none of its images can be read');
    const brief = await bench(photos, '--set', 'seconds=0', '--batch', '2');
    expect(brief).toMatchObject({ code: 2 });
    expect(brief.stderr).toContain('seconds');
  });
});

describe('the command', () => {
  it('starts with a thread in the pool for each core, unless told otherwise', async () => {
    const code = (size: string): string => `
      ${size}
      process.argv = [process.execPath, 'tapir', '--version'];
      process.on('exit', () => console.log(process.env.UV_THREADPOOL_SIZE));
      require(${JSON.stringify(projectPath('dist/lib/bin.cjs'))});`;
    const sized = await runNode(['-e', code('delete process.env.UV_THREADPOOL_SIZE;')]);
    expect(Number(sized.stdout.trim().split('\n').at(-1))).toBeGreaterThanOrEqual(4);
    const own = await runNode(['-e', code("process.env.UV_THREADPOOL_SIZE = '3';")]);
    expect(own.stdout.trim().split('\n').at(-1)).toBe('3');
  });
});
