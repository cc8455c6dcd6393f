/** Models that are downloaded on first use: the question, and its answers. The hub is a local server. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { findModelFile } from '../../../src/cli/flags/find-model.js';
import type { Terminal } from '../../../src/cli/terminal/terminal.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { startHub } from '../../support/hub-server.js';

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
    await expect(findModelFile('hf:org/one')).rejects.toMatchObject({ code: 'MODEL_UNREADABLE' });
    expect(hub.cdn.requests.length).toBe(0);
    const yes = answering(true);
    const path = await findModelFile('hf:org/one', yes.terminal);
    // The choice of model.onnx depends on the hub's list: it is asked again, the user is not.
    const later = answering(false);
    expect(await findModelFile('hf:org/one', later.terminal)).toBe(path);
    expect(later.said).toEqual([]);
    const requests = hub.hub.requests.length;
    expect(await findModelFile('hf:org/one#onnx/model.onnx')).toBe(path);
    expect(hub.hub.requests.length).toBe(requests);
  });
});
