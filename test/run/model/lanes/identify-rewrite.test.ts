/** What prepared models are known by: a file that lies still by its place and times, one that was just written by its content. */
import { copyFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import { prunedInternals } from '../../../../src/run/model/prune/pruned-model.js';
import { identifyRewrite } from '../../../../src/run/model/lanes/session-model.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';

const scratch = scratchFolder();
const bytesWith = (weight: number): Uint8Array =>
  modelBytes({
    inputs: ['x'],
    outputs: ['y'],
    initializers: { w: [weight, 2] },
    nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
  });
const path = join(scratch, 'model.onnx');

afterEach(() => vi.restoreAllMocks());

async function identify(model: string | Uint8Array, name = 'y'): Promise<string> {
  const pruned = await pruneModel(model, [name]);
  return (await identifyRewrite(pruned.source, prunedInternals.of(pruned).rewrite)).identity;
}

function later(ms: number): void {
  const now = Date.now() + ms;
  vi.spyOn(Date, 'now').mockReturnValue(now);
}

describe('the identity of a rewrite', () => {
  it('is that of the content where the file was just written, wherever it is', async () => {
    writeFileSync(path, bytesWith(1));
    const copy = join(scratch, 'copy.onnx');
    copyFileSync(path, copy);
    const first = await identify(path);
    expect(await identify(copy)).toBe(first);
    expect(await identify(bytesWith(1))).toBe(first);
    writeFileSync(path, bytesWith(3));
    expect(await identify(path)).not.toBe(first);
  });

  it('is that of the file where it lies still, and another whenever it is touched', async () => {
    writeFileSync(path, bytesWith(1));
    later(60_000);
    const first = await identify(path);
    expect(first).toContain(JSON.stringify(path));
    expect(await identify(path)).toBe(first);
    vi.restoreAllMocks();
    // Time of change alone tells: the other times and the size are as before.
    const then = new Date(1e12);
    utimesSync(path, then, then);
    later(120_000);
    const old = await identify(path);
    expect(old).not.toBe(first);
    vi.restoreAllMocks();
    await new Promise((resolve) => setTimeout(resolve, 20));
    writeFileSync(path, bytesWith(3));
    utimesSync(path, then, then);
    later(180_000);
    expect(await identify(path)).not.toBe(old);
  });

  it('is that of the content where clocks differ', async () => {
    writeFileSync(path, bytesWith(1));
    later(-60_000);
    expect(await identify(path)).toBe(await identify(bytesWith(1)));
  });
});
