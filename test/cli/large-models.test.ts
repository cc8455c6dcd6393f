/** Models of very many nodes, and the signals that end a command which computes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../support/fixtures.js';
import { chain, modelBytes } from '../support/graphs.js';
import { runTapir } from '../support/run.js';

const scratch = scratchFolder();
const large = join(scratch, 'large.onnx');
const NODES = 51_000;
writeFileSync(large, modelBytes(chain(NODES)));

describe('a model of 51,000 nodes', () => {
  it('is listed without the shapes that only a session knows, and says so', async () => {
    const { code, stdout, stderr } = await runTapir(['nodes', large]);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('n50999');
    expect(stderr).toContain('nodes or outputs are more than 50,000');
  });

  it('is not measured', async () => {
    const { code, stderr } = await runTapir(['nodes', large, '--cost']);
    expect(code).toBe(3);
    expect(stderr).toMatch(/cut it first .*\[SESSION_FAILED\]/);
  });

  it('is opened and cut', async () => {
    expect((await openModel(large)).nodes).toHaveLength(NODES);
    const out = join(scratch, 'cut.onnx');
    const ended = await runTapir(['extract', large, '--return', `n${NODES - 1}`, '-o', out]);
    expect(ended.code, ended.stderr).toBe(0);
  });
});

describe.skipIf(process.platform === 'win32')('a command that computes', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)('ends soon after %s', async (name) => {
    const began = Date.now();
    let sent = 0;
    const when = (): boolean => {
      if (sent === 0 && Date.now() - began > 400) sent = Date.now();
      return sent > 0;
    };
    const ended = await runTapir(['nodes', large, '--json'], { signal: { name, when } });
    expect(ended).toMatchObject({ signal: name, code: null });
    // A second on a quiet machine; the tests share theirs.
    expect(Date.now() - sent).toBeLessThan(5000);
  });
});
