/** Damaged files: every truncation and thousands of seeded byte flips of five models, in 100 MB of heap. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { rounds } from '../../support/rounds.js';

const scratch = scratchFolder();
/** Bodies, captures, a function, a sparse mix of attributes: what the small exports lack. */
const withBodies = join(scratch, 'bodies.onnx');
const branch = { outputs: ['o'], nodes: [{ op: 'Add', inputs: ['t', 'w'], outputs: ['o'] }] };
writeFileSync(
  withBodies,
  modelBytes(
    {
      inputs: ['a', { name: 'c', dims: [], elemType: 9 }],
      outputs: ['y'],
      initializers: {
        w: [1, 2, 3],
        far: { dims: [4], external: { location: 'w.bin', offset: '16', length: '16' } },
      },
      nodes: [
        { op: 'Twice', domain: 'local', inputs: ['a'], outputs: ['t'] },
        {
          op: 'If',
          name: 'choice',
          inputs: ['c'],
          outputs: ['z'],
          bodies: { then_branch: branch, else_branch: branch },
        },
        { op: 'Transpose', inputs: ['z'], outputs: ['p'], ints: { perm: [0] } },
        { op: 'Add', inputs: ['p', 'far'], outputs: ['y'] },
      ],
    },
    {
      functions: [
        {
          name: 'Twice',
          domain: 'local',
          input: ['x'],
          output: ['r'],
          node: [{ opType: 'Add', input: ['x', 'x'], output: ['r'] }],
          opsetImport: [{ domain: '', version: 17 }],
        },
      ],
    },
  ),
);

const MODELS = [
  withBodies,
  fixturePath('graphs/generated/malformed/deep_nest_20.onnx'),
  fixturePath('exporters/torch-old.vgg11_bn.t112.onnx'),
  fixturePath('exporters/keras.small-nested.tf216.export.onnx'),
  fixturePath('names/resnet18.batch1.ts.skeleton.onnx'),
];
const FLIPS = rounds(200, 10_000);

interface Summary {
  readonly cases: number;
  readonly plans: number;
  readonly untyped: readonly string[];
  readonly slowestMs: number;
}

describe('damaged models', () => {
  it.each(MODELS.map((path, i) => [path.split('/').at(-1)!, path, i + 1] as const))(
    '%s ends in a typed error or a valid plan',
    async (_, path, seed) => {
      const { stdout } = await promisify(execFile)(process.execPath, [
        '--max-old-space-size=100',
        projectPath('test/support/fuzz.mjs'),
        path,
        String(FLIPS),
        String(seed),
      ]);
      const summary = JSON.parse(stdout) as Summary;
      expect(summary.untyped).toEqual([]);
      expect(summary.cases).toBeGreaterThan(FLIPS);
      expect(summary.plans).toBeGreaterThan(0);
      // No bar of speed: a plan takes milliseconds, a hang for ever, and the machine may be busy.
      expect(summary.slowestMs).toBeLessThan(30_000);
    },
    600_000,
  );
});
