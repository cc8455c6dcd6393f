/** Runs models and their gradients in this process, for tests of many small graphs. */
import { type Tensor } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { InferenceSession, Tensor as OrtTensor } from 'onnxruntime-node';
import type { NewNode } from '../../src/onnx/file/wire/write-model.js';

/** A node with one output, by which it is named. */
export function newNode(
  opType: string,
  inputs: string[],
  output: string,
  attributes: NewNode['attributes'] = {},
): NewNode {
  return { name: output, opType, inputs, outputs: [output], attributes };
}

export type Feeds = Readonly<Record<string, Pick<Tensor, 'dtype' | 'dims' | 'data'>>>;
export type Results = Readonly<Record<string, Tensor>>;
type Level = 'disabled' | 'all';

/** Opens a model on one thread; the result runs it. */
export async function openSession(
  bytes: Uint8Array,
  graphOptimizationLevel: Level = 'all',
): Promise<(feeds: Feeds) => Promise<Results>> {
  const session = await InferenceSession.create(bytes, {
    graphOptimizationLevel,
    intraOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  return async (feeds) => {
    const named = session.inputNames.map((name): [string, OrtTensor] => {
      const { dtype, data, dims } = feeds[name]!;
      return [name, new OrtTensor(dtype as 'float32', data as Float32Array, dims)];
    });
    const results = await session.run(Object.fromEntries(named));
    return Object.fromEntries(
      Object.entries(results).map(([name, { type, dims, data }]) => [
        name,
        { dtype: type, dims, data } as Tensor,
      ]),
    );
  };
}

/** The gradients of a model by the names of `withRespectTo`; `upstream` has a seed for each target. */
export async function runGradients(
  bytes: Uint8Array,
  withRespectTo: readonly string[],
  upstream: Feeds,
  inputs: Feeds,
  level: Level = 'all',
): Promise<Results> {
  const gradients = await differentiate(bytes, { of: Object.keys(upstream), withRespectTo });
  const seeds = Object.entries(upstream).map(([name, seed]) => [`gradient/${name}`, seed]);
  const run = await openSession(await gradients.bytes(), level);
  const results = await run({ ...inputs, ...Object.fromEntries(seeds) });
  return Object.fromEntries(withRespectTo.map((name) => [name, results[`gradient/${name}`]!]));
}
