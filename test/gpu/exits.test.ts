/** A process that ends while sessions on a GPU open, wait or run ends with its exit code and never aborts. */
import { describe, expect, it } from 'vitest';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { scratchFolder } from '../support/fixtures.js';
import { gpu, gpuSettings, hasGpu, smallImages } from '../support/gpu.js';
import { runNode } from '../support/run.js';
import { smallNet } from '../support/small-net.js';

const model = join(scratchFolder(), 'small.onnx');
writeFileSync(model, smallNet());

/** Two extractors on the GPU. */
const OPEN = `
import { createFeatureExtractor } from 'onnx-tapir';
const open = () => createFeatureExtractor(${JSON.stringify(model)}, ['avgpool'], { device: '${gpu}', exitTimeoutMs: 60000 });
const opening = [open(), open()];
for (const one of opening) one.catch(() => undefined);
`;
/** Both run: one of them computes, the other waits for its turn. */
const RUN = `
const input = { dtype: 'float32', dims: ${JSON.stringify(smallImages(1).dims)}, data: new Float32Array(${smallImages(1).data.length}) };
const both = await Promise.all(opening);
const runs = both.map((one) => one.run(input));
for (const one of runs) one.catch(() => undefined);
`;

describe.skipIf(!hasGpu)('a process with sessions on a GPU', () => {
  it.each<[when: string, code: string, exitCode: number]>([
    ['while they open', `${OPEN} setTimeout(() => process.exit(7), 100);`, 7],
    ['while they run', `${OPEN} ${RUN} setTimeout(() => process.exit(7), 100);`, 7],
    ['while they are idle', `${OPEN} await Promise.all(opening); process.exit(7);`, 7],
    ['at the end of the script', `${OPEN} ${RUN} await Promise.all(runs);`, 0],
  ])('exits %s', async (_, code, exitCode) => {
    const ended = await runNode(['--input-type=module', '-e', code], { env: gpuSettings });
    expect(ended, ended.stderr).toMatchObject({ code: exitCode, signal: null, stderr: '' });
  });
});
