/** A training that is killed again and again ends with the bits of one that never was. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runNode, type Ended } from '../../support/run.js';
import { rounds } from '../../support/rounds.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());
const STEPS = 40;
const KILLS = rounds(2, 6);
const STEPS_MEASURED = rounds(220, 500);

/** Trains into a folder. With a step, is killed within milliseconds after it: in its checkpoint, or in the next step. */
function train(folder: string, last?: number): Promise<Ended> {
  const args = [projectPath('test/support/train-to-the-end.mjs'), model, folder, String(STEPS)];
  const when = new RegExp(`^${last}$`, 'm');
  return runNode(args, last === undefined ? {} : { signal: { name: 'SIGKILL', when } });
}

const weightsIn = ({ stdout, stderr }: Ended): string => {
  const hash = /weights ([0-9a-f]{64})/.exec(stdout)?.[1];
  if (hash === undefined) throw new Error(stderr);
  return hash;
};
const stepsIn = ({ stdout }: Ended): number[] =>
  stdout.split('\n').flatMap((line) => (/^\d+$/.test(line) ? [Number(line)] : []));

describe('resume', () => {
  // Six seconds: four processes, because a kill is only real in one.
  it(`after ${KILLS} kills ends with the same bits`, { timeout: 180_000 }, async () => {
    const whole = await train(join(scratch, 'whole'));
    expect(stepsIn(whole)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
    const random = createRandom(19);
    const folder = join(scratch, 'killed');
    let last = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const run = await train(folder, last + 1 + Math.floor(random() * 5));
      expect(run.signal, run.stderr).toBe('SIGKILL');
      const [first, ...others] = stepsIn(run) as [number, ...number[]];
      // At most the steps since a checkpoint are taken again: two, and two more if the kill was faster than the write.
      expect(last + 1 - first).toBeLessThanOrEqual(last === 0 ? 0 : 3);
      last = Math.max(first, ...others);
    }
    const end = await train(folder);
    expect(last).toBeGreaterThan(KILLS);
    expect(stepsIn(end)[0]).toBeGreaterThan(last - 4);
    expect(weightsIn(end)).toBe(weightsIn(whole));
  });
});

/** Bytes of this process after some steps, and after many more. */
const MEASURE = `
  import { createTrainer } from 'onnx-tapir/train';
  const trainer = await createTrainer(${JSON.stringify(model)}, {
    loss: 'cross-entropy',
    optimizer: { kind: 'sgd', lr: 0.001, momentum: 0.9 },
    batchNorm: 'batch',
  });
  const data = Float32Array.from({ length: 2 * 3 * 64 * 64 }, (_, i) => Math.sin(i));
  const batch = { input: { dtype: 'float32', dims: [2, 3, 64, 64], data }, target: [1, 2] };
  const measure = () => {
    globalThis.gc();
    const { heapUsed, arrayBuffers, rss } = process.memoryUsage();
    return { heap: heapUsed + arrayBuffers, rss };
  };
  const until = async (steps) => {
    while (trainer.steps < steps) await trainer.step(batch);
    return measure();
  };
  console.log(JSON.stringify([await until(100), await until(${STEPS_MEASURED})]));
  await trainer.close();
`;

interface Held {
  readonly heap: number;
  readonly rss: number;
}

describe('memory', () => {
  it('does not grow from step to step', { timeout: 180_000 }, async () => {
    const ended = await runNode(['--expose-gc', '--input-type=module', '--eval', MEASURE]);
    expect(ended.code, ended.stderr).toBe(0);
    const [early, late] = JSON.parse(ended.stdout) as [Held, Held];
    // The gradients of one step are 0.2 MB: kept ones would be 24 MB and more.
    expect(late.heap - early.heap).toBeLessThan(1e6);
    expect(late.rss - early.rss).toBeLessThan(40e6);
  });
});
