/** Mistakes on the command line, and the advice that they get. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { scratchFolder } from '../support/fixtures.js';
import { runTapir } from '../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'tiny.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const out = join(scratch, 'out.onnx');

describe('advice', () => {
  it.each([
    [
      'a misspelt flag',
      ['extract', model, '--retrun', 'fc', '-o', out],
      2,
      /unknown option '--retrun'.*--return\?/s,
    ],
    ['a flag that is missing', ['extract', model, '-o', out], 2, /required option '--return/],
    [
      'a key before its name',
      ['extract', model, '--return', 'a=avgpool', '-o', out],
      2,
      /NAME=KEY.*\(avgpool=a\), got "a=avgpool"/,
    ],
    ['a key before a module', ['extract', model, '--return', 'a=layer4', '-o', out], 2, /\(layer4=a\)/],
    [
      'pairs in one flag',
      ['extract', model, '--return', 'avgpool=a,fc=b', '-o', out],
      2,
      /--return avgpool=a --return fc=b/,
    ],
    ['an unknown name', ['extract', model, '--return', 'a=nothing', '-o', out], 2, /NAME_NOT_FOUND/],
    [
      'a model that is not there',
      ['nodes', join(scratch, 'none.onnx')],
      3,
      /no file ".*none\.onnx".*MODEL_UNREADABLE/,
    ],
    ['a name like a known model', ['nodes', 'resnet5'], 3, /nearest: "resnet-50".*tapir models list/],
  ])('for %s', async (_, args, code, message) => {
    const ended = await runTapir(args);
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).not.toMatch(/ENOENT/);
    expect(ended.code).toBe(code);
  });

  it('for a port that is taken', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const ended = await runTapir(['serve', '--model', model, '--return', 'avgpool', '--port', String(port)]);
    server.close();
    expect(ended.stderr).toMatch(/another program listens there; choose another port, or 0/);
    expect(ended.code).toBe(2);
  });
});
