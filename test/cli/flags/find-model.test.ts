/** Models that are downloaded on first use: the question, and its answers. The hub is a local server. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { findModelFile } from '../../../src/cli/flags/find-model.js';
import type { Terminal } from '../../../src/cli/terminal/terminal.js';
import { projectPath, scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { startHub } from '../../support/hub-server.js';
import { runCommand } from '../../support/run.js';

const scratch = scratchFolder();
const model = tinyResNet();

afterEach(() => {
  vi.unstubAllEnvs();
});

/** A terminal on which a question gets an answer. */
function answering(answer: boolean): { terminal: Terminal; said: string[] } {
  const said: string[] = [];
  const terminal = {
    signal: new AbortController().signal,
    isTerminal: false,
    err: (text: string) => said.push(text),
    confirm: (question: string) => {
      said.push(question);
      return Promise.resolve(answer);
    },
  } as unknown as Terminal;
  return { terminal, said };
}

/** Runs a program on a terminal, and answers its question. Python has pseudo-terminals, Node does not. */
const ON_TERMINAL = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
output, asked = b'', False
while True:
    try:
        chunk = os.read(terminal, 4096)
    except OSError:
        break
    if not chunk:
        break
    output += chunk
    if b'[y/N]' in output and not asked:
        asked = True
        os.write(terminal, sys.argv[1].encode())
print(output.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
`;
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;

describe.skipIf(!hasPython)('a question on a terminal', () => {
  it.each([
    ['no', 'n\n', 3],
    ['nothing', '\n', 3],
    ['end of input', '\u0004', 3],
    ['Ctrl-C', '\u0003', 130],
    ['yes', 'y\n', 0],
  ])('%s', async (_what, keys, code) => {
    const hub = await startHub({ repository: 'org/one', files: { 'onnx/model.onnx': model } });
    const env = { HF_ENDPOINT: hub.url, HF_HUB_CACHE: join(scratch, String(code)), HF_HUB_OFFLINE: '' };
    const command = [
      process.execPath,
      projectPath('dist/lib/bin.cjs'),
      'nodes',
      'hf:org/one',
      '--depth',
      '1',
    ];
    const ended = await runCommand('python3', ['-c', ON_TERMINAL, keys, ...command], { env });
    expect(ended.code, ended.stdout + ended.stderr).toBe(code);
    expect(ended.stdout).toContain('Download it? [y/N]');
    expect(hub.cdn.requests.length).toBe(code === 0 ? 1 : 0);
  });
});

describe('findModelFile', () => {
  it('asks before a first download, and not again', async () => {
    const hub = await startHub({ repository: 'org/one', files: { 'onnx/model.onnx': model } });
    vi.stubEnv('HF_ENDPOINT', hub.url);
    vi.stubEnv('HF_HUB_CACHE', join(scratch, 'one'));
    vi.stubEnv('HF_HUB_OFFLINE', '');
    const no = answering(false);
    await expect(findModelFile('hf:org/one', no.terminal)).rejects.toMatchObject({
      code: 'MODEL_UNREADABLE',
    });
    expect(no.said.join('')).toMatch(
      /^org\/one at .*onnx\/model\.onnx.* to download\nlicence: mit .*\nDownload it\?$/,
    );
    expect(hub.cdn.requests.length).toBe(0);
    const yes = answering(true);
    const path = await findModelFile('hf:org/one', yes.terminal);
    // The choice of model.onnx depends on the hub's list: it is asked again, the user is not.
    const later = answering(false);
    expect(await findModelFile('hf:org/one', later.terminal)).toBe(path);
    expect(later.said).toEqual([]);
    const requests = hub.hub.requests.length;
    expect(await findModelFile('hf:org/one#onnx/model.onnx', later.terminal)).toBe(path);
    expect(hub.hub.requests.length).toBe(requests);
  });
});
