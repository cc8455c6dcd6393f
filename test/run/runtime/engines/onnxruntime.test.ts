/** The default engine, called as a lane calls it, through each of its bindings. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { stampOf } from '../../../../src/base/file-stamp.js';
import { withBinding } from '../../../../src/run/runtime/engines/onnxruntime.js';
import { SESSION_DEFAULTS } from '../../../../src/run/runtime/lanes/session-options.js';
import type { Session } from '../../../../src/run/runtime/lanes/engine.js';
import type { LaneDescription } from '../../../../src/run/runtime/lanes/protocol.js';
import type { NamedTensor } from '../../../../src/onnx/tensor/tensor.js';
import { cpu, describeLane } from '../../../support/fake-lane.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { negModel, unknownModel } from '../../../support/tiny-models.js';

// In the package, lane-start.ts sees to this.
vi.stubEnv('ORT_DISABLE_TELEMETRY', '1');

const scratch = scratchFolder();
const feed = (dims: readonly number[] = [1, 1, 1, 1]): NamedTensor => ({
  name: 'x',
  dtype: 'float32',
  dims,
  data: new Float32Array(dims.reduce((a, b) => a * b)).fill(42.5),
});

describe.each(['node', 'c', 'auto'] as const)('a session of onnxruntime, binding %s', (binding) => {
  const open = async (fields: Partial<LaneDescription> = {}): Promise<Session> =>
    withBinding(binding).openSession({ ...(await describeLane()), model: negModel(), ...fields });

  it('says what it is, and runs', async () => {
    const session = await open();
    const value = { isTensor: true, dtype: 'float32', dims: [1, 1, 1, 1] };
    expect(session.facts).toMatchObject({
      inputs: [{ name: 'x', ...value }],
      outputs: [{ name: 'y', ...value }],
      device: cpu,
    });
    expect(session.facts.runtime).toMatch(/^\d+\.\d+/);
    expect(session.facts.providers).toContain('cpu');
    const [y] = await session.run([feed()], ['y']);
    expect(y).toEqual({ name: 'y', dtype: 'float32', dims: [1, 1, 1, 1], data: Float32Array.of(-42.5) });
    await session.release();
  });

  it('returns outputs in the order of the fetches, each in its own buffer', async () => {
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n'] }],
      outputs: [
        { name: 'a', dims: ['n'] },
        { name: 'b', dims: ['n'] },
      ],
      nodes: [
        { op: 'Neg', inputs: ['x'], outputs: ['a'] },
        { op: 'Abs', inputs: ['x'], outputs: ['b'] },
      ],
    });
    const session = await open({ model });
    const outputs = await session.run([feed([2])], ['b', 'a']);
    expect(outputs.map(({ name, data }) => [name, data[0]])).toEqual([
      ['b', 42.5],
      ['a', -42.5],
    ]);
    const [first, second] = outputs.map(({ data }) => (data as Float32Array).buffer);
    expect(first).not.toBe(second);
    expect(first!.byteLength).toBe(8);
    await session.release();
  });

  it('passes on options, with threads of the device', async () => {
    const extra = { session: { intra_op: { allow_spinning: '0' } } };
    const session = await open({
      device: { ...cpu, threads: 1 },
      session: { ...SESSION_DEFAULTS, graphOptimizationLevel: 'disabled', interOpNumThreads: 1, extra },
    });
    expect(session.facts.device.threads).toBe(1);
    await session.release();
  });

  it('fails with SESSION_FAILED for a model that onnxruntime refuses', async () => {
    await expect(open({ model: unknownModel() })).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(/^ONNX Runtime refuses the model on cpu: .*Xeg/) as string,
      details: { device: 'cpu' },
    });
  });

  it('fails with RUN_FAILED for a run that onnxruntime refuses, and still runs', async () => {
    const session = await open();
    await expect(session.run([feed([1, 1, 1, 2])], ['y'])).rejects.toMatchObject({
      code: 'RUN_FAILED',
      message: expect.stringMatching(/^the model failed on cpu: /) as string,
    });
    expect(await session.run([feed()], ['y'])).toHaveLength(1);
    await session.release();
  });

  it('fails with MODEL_CHANGED if the file of the weights has changed', async () => {
    const path = join(scratch, 'model.onnx');
    writeFileSync(path, negModel());
    const weightsFile = { path, stamp: stampOf(statSync(path)) };
    await (await open({ weightsFile })).release();
    writeFileSync(path, 'changed');
    await expect(open({ weightsFile })).rejects.toMatchObject({ code: 'MODEL_CHANGED' });
    await expect(open({ weightsFile, model: unknownModel() })).rejects.toMatchObject({
      code: 'MODEL_CHANGED',
    });
  });

  it('uses the CPU for "auto" if CUDA does not work, and says why', async () => {
    const session = await open({ device: { type: 'auto', id: 0, threads: 0 } });
    if (session.facts.device.type === 'cpu')
      expect(session.facts.fallback).toMatch(/^cuda:0 cannot be used: /);
    await session.release();
  });
});
