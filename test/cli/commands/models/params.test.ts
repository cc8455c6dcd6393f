/** `tapir models params`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import onnxProto from 'onnx-proto';
import { readStateDict } from 'onnx-tapir/parameters';
import { describe, expect, it } from 'vitest';
import { exportedNetwork } from '../../../support/exports.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { runTapir } from '../../../support/run.js';

const { onnx } = onnxProto;
const scratch = scratchFolder();
const resnet = exportedNetwork('resnet', scratch);
const vit = exportedNetwork('vit', scratch);

describe('tapir models params', () => {
  it('lists parameters with their origins', async () => {
    const { code, stdout } = await runTapir(['models', 'params', join(resnet.folder, 'resnet.dynamo.onnx')]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^layer1\.0\.conv1\.weight +float32 +\[8, 8, 3, 3\] +parameter +folded with layer1\.0\.bn1/m,
    );
    expect(stdout).toMatch(/^fc\.weight +float32 +\[10, 16\] +parameter +exact +fc\.weight *$/m);
    const json = await runTapir(['models', 'params', join(vit.folder, 'vit.dynamo.onnx'), '--json']);
    const listed = JSON.parse(json.stdout) as { name: string; origin: unknown; initializers: string[] }[];
    expect(new Set(listed.map(({ name }) => name))).toEqual(new Set(vit.parameters));
    const weight = listed.find(({ name }) => name.endsWith('layer_1.self_attention.in_proj_weight'))!;
    expect(weight.origin).toEqual({ kind: 'transposed', perm: [1, 0] });
  });

  it('saves a state dict that gives the same file back', async () => {
    const [model, state, out] = [
      join(vit.folder, 'vit.ts.onnx'),
      join(scratch, 'vit.safetensors'),
      join(scratch, 'same.onnx'),
    ];
    expect(await runTapir(['models', 'params', model, '--save', state])).toMatchObject({
      code: 0,
      stdout: '',
    });
    expect([...(await readStateDict(state)).keys()].length).toBe(vit.parameters.length);
    const run = await runTapir(['models', 'load', model, '--weights', state, '-o', out]);
    expect(run).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('26 exact, 6 transposed') as string,
    });
    expect(readFileSync(out).equals(readFileSync(model))).toBe(true);
    expect((await runTapir(['models', 'params', model, '--save', state])).code).toBe(4);
  });

  it('leaves out what was folded', async () => {
    const run = await runTapir([
      'models',
      'params',
      join(resnet.folder, 'resnet.ts.onnx'),
      '--save',
      join(scratch, 'fc.safetensors'),
    ]);
    expect(run.stderr).toMatch(/\(2 tensors; 14 are folded into others, and left out\)/);
  });

  it('says how much lies in 8 bits and fewer, and refuses to save nothing', async () => {
    const quantised = join(scratch, 'int8.onnx');
    const dims = [3, 4] as const;
    const spec = { name: 'w', dims: [...dims], dataType: 3, rawData: new Uint8Array(12) };
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3] }],
      outputs: ['y'],
      nodes: [
        { op: 'DequantizeLinear', inputs: ['w', 's'], outputs: ['f'] },
        { op: 'MatMul', inputs: ['x', 'f'], outputs: ['y'] },
      ],
      initializers: { s: { dims: [], values: [0.5] } },
    });
    const more = onnx.ModelProto.encode({ graph: { initializer: [spec] } }).finish();
    writeFileSync(quantised, Buffer.concat([model, more]));
    const listed = await runTapir(['models', 'params', quantised]);
    expect(listed).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('0 tensors: 12 parameters, int8') as string,
      stderr: expect.stringContaining('12 parameters are weights of a quantised model') as string,
    });
    const saved = await runTapir([
      'models',
      'params',
      quantised,
      '--save',
      join(scratch, 'none.safetensors'),
    ]);
    expect(saved).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no parameter in floats') as string,
    });
  });
});
