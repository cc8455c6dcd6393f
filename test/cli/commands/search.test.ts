/** `tapir search` on a dataset that `tapir embed` has written. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Manifest } from 'onnx-tapir';
import type { SearchHit } from 'onnx-tapir/features';
import { buildResNet } from '../../../models/resnet.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
const photos = join(scratch, 'photos');
const out = join(scratch, 'out');
const sea = join(photos, 'sea/sea-0.jpg');

interface Found {
  readonly key: string;
  readonly results: readonly {
    readonly query: string;
    readonly row: number | null;
    readonly hits: SearchHit[];
  }[];
}

async function search(...args: string[]): Promise<Found> {
  const run = await runTapir(['search', out, ...args, '--json']);
  expect(run).toMatchObject({ code: 0, stderr: '' });
  return JSON.parse(run.stdout) as Found;
}

beforeAll(async () => {
  const shape = { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 } as const;
  writeFileSync(model, buildResNet(0, shape).bytes);
  cpSync(projectPath('examples/photos'), photos, {
    recursive: true,
    filter: (file) => !file.endsWith('.ts'),
  });
  cpSync(fixturePath('preprocess/bad/truncated.jpg'), join(photos, 'cut.jpg'));
  const flags = [
    '--return',
    'layer4=embedding',
    '--return',
    'fc=logits',
    '--pool',
    'embedding=avg',
    '--set',
    'dtype=float16',
    '--transform',
    'ImageNet1K_V1',
  ];
  const run = await runTapir([
    'embed',
    photos,
    '--model',
    model,
    ...flags,
    '--set',
    'shardSize=5',
    '--out',
    out,
  ]);
  expect(run.code).toBe(1);
});

describe('tapir search', () => {
  it('finds an image itself first, embedded as the manifest says', async () => {
    const { key, results } = await search(sea, '--model', model, '--output', 'embedding', '--top', '3');
    expect(key).toBe('embedding');
    expect(results[0]!.query).toBe(sea);
    expect(results[0]!.hits).toHaveLength(3);
    expect(results[0]!.hits[0]).toMatchObject({ rank: 1, path: 'sea/sea-0.jpg' });
    // Half precision on disk.
    expect(results[0]!.hits[0]!.score).toBeCloseTo(1, 5);
    expect(results[0]!.hits[1]!.score).toBeLessThan(0.9999);
  });

  it.each(['cosine', 'dot', 'l2'])(
    'looks for an input of the dataset, which is no result itself: %s',
    async (metric) => {
      const args = ['--path', 'sea/sea-0.jpg', '--path', 'sea/sea-1.jpg', '--metric', metric];
      const { results } = await search(...args, '--output', 'embedding');
      expect(results.map(({ query }) => query)).toEqual(['sea/sea-0.jpg', 'sea/sea-1.jpg']);
      for (const { query, row, hits } of results) {
        expect(row).not.toBeNull();
        expect(hits.map(({ path }) => path)).not.toContain(query);
        const scores = hits.map(({ score }) => (metric === 'l2' ? -score : score));
        expect(scores).toEqual(scores.toSorted((a, b) => b - a));
      }
    },
  );

  it('prints a table for each query', async () => {
    const args = ['search', out, sea, '--path', 'sea/sea-0.jpg', '--model', model, '--output', 'logits'];
    const { code, stdout } = await runTapir([...args, '--metric', 'l2', '--top', '2']);
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines[0]).toBe(sea);
    expect(lines[1]).toMatch(/^rank +distance +row +path$/);
    expect(lines[2]).toMatch(/^ +1 +\S+ +\d+ +sea\/sea-0\.jpg$/);
    expect(lines[5]).toBe('sea/sea-0.jpg');
  });

  it('refuses a dataset that does not say how it was made', async () => {
    const folder = join(scratch, 'silent');
    cpSync(out, folder, { recursive: true });
    const path = join(folder, 'manifest.json');
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
    for (const without of ['model', 'request', 'transform'] as const) {
      writeFileSync(path, JSON.stringify({ ...manifest, [without]: null }));
      const run = await runTapir(['search', folder, sea, '--model', model, '--output', 'logits']);
      expect(run.stderr).toContain('[DATASET_INVALID]');
    }
  });

  it('refuses another model, a missing one, several outputs, an unknown path and one that failed', async () => {
    const other = join(scratch, 'other.onnx');
    writeFileSync(other, buildResNet(1, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
    const cases: [string[], number, string][] = [
      [[sea, '--model', other, '--output', 'embedding'], 3, '[CHECKSUM_MISMATCH]'],
      [[sea, '--output', 'embedding'], 2, 'the file that the dataset was made with (model.onnx'],
      [['--path', 'sea/sea-0.jpg'], 2, '"embedding", "logits"'],
      [['--path', 'sea/sea-99.jpg', '--output', 'logits'], 2, 'an input of the dataset'],
      [['--path', 'cut.jpg', '--output', 'logits'], 2, 'an input that could be embedded'],
      [['--output', 'logits'], 2, 'images'],
      [[join(photos, 'cut.jpg'), '--model', model, '--output', 'logits'], 2, '[IMAGE_'],
    ];
    for (const [args, code, text] of cases) {
      const run = await runTapir(['search', out, ...args]);
      expect(run).toMatchObject({ code, stdout: '' });
      expect(run.stderr).toContain(text);
    }
  });
});
