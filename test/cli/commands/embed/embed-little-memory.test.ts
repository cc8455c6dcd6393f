/** Embedding with a small heap and with little address space. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder, tinyResNet } from '../../../support/fixtures.js';

const scratch = scratchFolder();
const model = join(scratch, 'tiny.onnx');
writeFileSync(model, tinyResNet());
const bin = projectPath('dist/lib/bin.cjs');
const transform = JSON.stringify({ resize: 64, crop: 64 });
const flags = ['--model', model, '--return', 'avgpool=v', '--transform', transform, '--overwrite', '--out'];

/** Runs the command after shell words, such as a limit. */
function embed(
  out: string,
  shell: string,
  node: readonly string[] = [],
): { status: number | null; stderr: string } {
  const args = [...node, bin, 'embed', projectPath('examples/photos'), ...flags, join(scratch, out)];
  // Node can hang when two of its threads run out of memory at once: its handler then waits for a lock that the other one holds.
  const limits = { timeout: 30_000, killSignal: 'SIGKILL' } as const;
  const command = ['-c', `${shell} exec "$0" "$@"`, process.execPath, ...args];
  const { status, stderr } = spawnSync('sh', command, limits);
  return { status, stderr: String(stderr) };
}
const vectors = (out: string): Buffer => readFileSync(join(scratch, out, 'features/v/v-00000.npy'));

describe.skipIf(process.platform !== 'linux')('tapir embed', () => {
  it('needs no more than 32 MB of heap and 6 GB of address space', () => {
    expect(embed('plain', '')).toEqual({ status: 0, stderr: '' });
    expect(embed('heap', '', ['--max-old-space-size=32'])).toEqual({ status: 0, stderr: '' });
    expect(embed('space', 'ulimit -v 6000000;')).toEqual({ status: 0, stderr: '' });
    for (const out of ['heap', 'space']) expect(vectors(out)).toEqual(vectors('plain'));
  });

  it('loses nothing where V8 gives up for want of address space', { timeout: 150_000 }, () => {
    expect(embed('plain', '').status).toBe(0);
    expect(embed('plain', 'ulimit -v 1500000;').status).not.toBe(0);
    const again = embed('torn', 'ulimit -v 1500000;');
    expect(again.status).not.toBe(0);
    expect(embed('torn', '')).toEqual({ status: 0, stderr: '' });
    expect(vectors('torn')).toEqual(vectors('plain'));
  });
});
