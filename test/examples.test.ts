/** The examples run, and print what they say. */
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../models/resnet.js';
import { projectPath, scratchFolder } from './support/fixtures.js';
import { someOf } from './support/rounds.js';
import { runNode } from './support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
// The same topology, small, so that the tests need not write 100 MB.
writeFileSync(model, buildResNet(0, { blocks: [3, 4, 6, 3], width: 8, size: 224, classes: 10 }).bytes);

const cases: Readonly<Record<string, readonly [args: readonly string[], printed: RegExp, written?: string]>> =
  {
    '01-list-nodes.ts': [[model], /176 names: input, conv1, bn1, relu/],
    '02-extract-features.ts': [[model], /features \[ 1, 256, 7, 7 \] pooled \[ 1, 256, 1, 1 \]/],
    '03-embed-folder.ts': [
      [model, join(scratch, 'set')],
      /\{ inputs: 24, ok: 24, errors: 0 \}/,
      join(scratch, 'set/manifest.json'),
    ],
    '04-save-pruned-model.ts': [
      [model, join(scratch, 'cut.onnx')],
      /kept 78 nodes, dropped 97/,
      join(scratch, 'cut.onnx'),
    ],
    '05-nearest-neighbours.ts': [
      [model, join(scratch, 'n.png')],
      /city\/city-0.jpg → /,
      join(scratch, 'n.png'),
    ],
    '06-parts-in-the-graph.ts': [
      [model],
      /fine float16 \[ 1, 128 \] coarse float32 \[ 1, 256 \]\nequal to the full graph, bit for bit/,
    ],
    '07-data-parallel.ts': [
      [model],
      /device: 'cpu:1', rows: 2[^]*one batch, split: \[ 5, 256, 1, 1 \]\na stream: 14 rows by cpu:0 \(3 runs\), cpu:1 \(3 runs\)/,
    ],
    '08-stream.ts': [
      [model, join(scratch, 'rows.jsonl')],
      /24 rows, the first one city\/city-0.jpg of city: \d+ numbers/,
      join(scratch, 'rows.jsonl'),
    ],
    '09-train-on-devices.ts': [
      [model],
      /step 3: loss [\d.]+, the same in the other order\nlearned: .*\nfeatures \[ 5, 256, 1, 1 \]/,
    ],
    '10-train-a-small-network.ts': [['200'], /squares not seen: loss .*\nlearned/],
    '11-linear-layer-over-devices.ts': [
      [],
      /cpu:2: input \[10, 5\]\noutput \[ 30, 2 \]\nstep 1: [^]*step 16: loss [\d.]+ on three devices and on one/,
    ],
    '12-probe.ts': [
      [model, join(scratch, 'probe')],
      /6 classes, \d+ % right on photos that were not learned\n[^]*sea-3\.jpg \w+/,
      join(scratch, 'probe/classifier.onnx'),
    ],
  };

describe('examples', () => {
  it('are all here', () => {
    const files = readdirSync(projectPath('examples')).filter((file) => file.endsWith('.ts'));
    expect(files.toSorted()).toEqual(Object.keys(cases));
  });

  // With TAPIR_GUIDES, one of them has changed.
  const tried = Object.entries(cases);
  it.each(process.env['TAPIR_GUIDES'] === undefined ? someOf(tried, 2) : tried)(
    '%s',
    async (file, [args, printed, written]) => {
      const ended = await runNode(['--import', 'tsx', projectPath(`examples/${file}`), ...args]);
      expect(ended.code, ended.stderr).toBe(0);
      expect(ended.stdout).toMatch(printed);
      if (written !== undefined) expect(existsSync(written)).toBe(true);
    },
  );
});
