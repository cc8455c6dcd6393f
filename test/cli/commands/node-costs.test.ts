/** The tree of costs, and the command that prints it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { listCosts } from '../../../src/cli/commands/node-costs.js';
import type { ModelProfile } from '../../../src/extract/stages/profile-model.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const file = join(scratch, 'tiny.onnx');
writeFileSync(file, tinyResNet());

describe('listCosts', () => {
  const cost = {
    macs: 1,
    parameters: 1,
    buffers: 0,
    constants: 0,
    weightBytes: 4,
    activationBytes: 4,
    milliseconds: null,
  };
  const node = (name: string, op: string, module: string | null): ModelProfile['nodes'][number] => ({
    name,
    op,
    module,
    ...cost,
  });
  const profile: ModelProfile = {
    batch: 1,
    inputs: [],
    nodes: [
      node('fc', 'MatMul', 'block.fc'),
      node('fc', 'Add', 'block.fc'),
      node('add', 'Add', 'block'),
      node('y', 'Relu', ''),
      node('z', 'Neg', null),
    ],
    modules: [
      { name: 'block', nodes: 3, ...cost },
      { name: 'block.fc', nodes: 2, ...cost },
    ],
    total: cost,
    uncounted: [],
  };

  it('shows modules, and nodes beside them', () => {
    expect(listCosts(profile, Infinity).map(({ name, op, depth }) => [depth, name, op])).toEqual([
      [0, 'block', ''],
      [1, 'block.fc', 'MatMul, Add'],
      [1, 'add', 'Add'],
      [0, 'y', 'Relu'],
      [0, 'z', 'Neg'],
    ]);
  });

  it('stops at a depth', () => {
    expect(listCosts(profile, 1).map(({ name }) => name)).toEqual(['block', 'y', 'z']);
  });
});

describe('tapir nodes --cost', () => {
  it('prints a table with a total', async () => {
    const { code, stdout } = await runTapir(['nodes', file, '--cost', '--depth', '1', '--batch', '2']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^one run with \w+ \[2, 3, 64, 64\]\n/);
    expect(stdout).toMatch(/\nconv1 +Conv +1\.20 M +588 +2\.35 kB +32\.8 kB\n/);
    expect(stdout).toMatch(/\nlayer4 +[\d.]+ \w+ .*\n/);
    expect(stdout).toMatch(/\ntotal +2\.07 M +34\.3 k +1\.21 k +142 kB +634 kB\n$/);
  });

  it('prints JSON, with times on request, which turn the costs on', async () => {
    const { stdout } = await runTapir(['nodes', file, '--time', '--threads', '1', '--json']);
    const { total, modules } = JSON.parse(stdout) as ModelProfile;
    expect(total.milliseconds).toBeGreaterThan(0);
    expect(modules.map(({ name }) => name)).toContain('layer1');
  });
});
