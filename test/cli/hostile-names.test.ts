/** Names from files that act on a terminal, through every command that prints them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeStateDict } from 'onnx-tapir/parameters';
import { describe, expect, it } from 'vitest';
import { scratchFolder } from '../support/fixtures.js';
import { modelBytes } from '../support/graphs.js';
import { runTapir } from '../support/run.js';

const scratch = scratchFolder();
const EVIL = '\u001b]0;x\u0007\u009b2J\u202e\u2066\u200f';
/** Everything that a terminal acts on. Line ends are ours. */
const RAW = /(?!\n)[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

const model = join(scratch, 'hostile.onnx');
writeFileSync(
  model,
  modelBytes({
    inputs: [{ name: `x${EVIL}`, dims: [2] }],
    outputs: [{ name: `y${EVIL}`, dims: [2] }],
    nodes: [
      { op: 'Mul', inputs: [`x${EVIL}`, `w${EVIL}`], outputs: [`m${EVIL}`], name: `/relu${EVIL}/Mul` },
      { op: `Relu`, inputs: [`m${EVIL}`], outputs: [`y${EVIL}`], name: `/relu${EVIL}/Relu` },
    ],
    initializers: { [`w${EVIL}`]: [1, 2] },
  }),
);
const broken = join(scratch, 'broken.onnx');
writeFileSync(
  broken,
  modelBytes({
    inputs: ['x'],
    outputs: ['y'],
    nodes: [{ op: `No${EVIL}`, inputs: ['x'], outputs: ['y'], name: `n${EVIL}` }],
  }),
);
const weights = join(scratch, 'hostile.safetensors');
await writeStateDict(
  weights,
  new Map([[`k${EVIL}`, { dtype: 'float32', dims: [1], data: new Float32Array(1) }]]),
);
const out = join(scratch, 'out');

const COMMANDS: readonly (readonly string[])[] = [
  ['nodes', model],
  ['nodes', model, '--all'],
  ['nodes', model, '--json'],
  ['nodes', model, '--cost'],
  ['nodes', model, '--cost', '--json'],
  ['nodes', broken],
  ['nodes', broken, '--cost'],
  ['models', 'params', model],
  ['models', 'params', model, '--json'],
  ['extract', model, '--return', 'rel', '-o', out],
  ['extract', model, '--return', `relu${EVIL}=k`, '-o', `${out}.onnx`],
  ['extract', broken, '--return', `n${EVIL}`, '-o', `${out}.onnx`, '--verify', '--overwrite'],
  ['models', 'load', model, '--weights', weights, '-o', out],
  ['models', 'load', model, '--weights', weights, '-o', out, '--no-strict'],
  ['models', 'split', model, '--stages', '3', '-o', out],
  ['models', 'differentiate', model, '--of', 'rel', '--with-respect-to', 'x', '-o', out],
  ['bench', 'model', model, '--return', 'rel'],
  ['explore', model, '--return', 'rel', '--out', `${out}.html`],
  ['embed', scratch, '--model', model, '--return', 'rel', '--out', out],
];

describe('names that act on a terminal', () => {
  it.each(COMMANDS.map((words) => [words.map((word) => word.replaceAll(scratch, '')).join(' '), words]))(
    'are spelled out by %j',
    async (_, words) => {
      const { stdout, stderr } = await runTapir(words as readonly string[]);
      expect(stdout + stderr).not.toBe('');
      expect(JSON.stringify(RAW.exec(stdout + stderr))).toBe('null');
    },
  );
});
