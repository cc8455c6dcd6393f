/** Gradients of 200 random graphs against central differences in float64, and of random windows against what they are the adjoint of. */
import { differentiate } from 'onnx-tapir/gradients';
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../src/onnx/file/wire/schema.js';
import { writeModel, type NewAttribute } from '../../../src/onnx/file/wire/write-model.js';
import { openSession, type Feeds } from '../../support/gradients.js';
import { countOf, Random, randomGraph } from '../../support/random-graphs.js';
import { someOf } from '../../support/rounds.js';

const STEP = 1e-5;
const GRAPHS = 200;
/** Graphs of one test. */
const TOGETHER = 20;

const doubles = (dims: readonly number[], data: Float64Array<ArrayBuffer>): Feeds[string] => ({
  dtype: 'float64',
  dims: [...dims],
  data,
});
const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, value, i) => sum + value * b[i]!, 0);

/** How far the gradients of a random graph are from the slope along a random direction, relative to the slope's parts. */
async function slopeError(seed: number): Promise<number> {
  const operatorSet = [13, 17, 18][seed % 3]!;
  const graph = randomGraph(seed, operatorSet, seed % 2 === 1);
  const random = new Random(seed + 1_000_003);
  const points = graph.inputs.map(({ dims }) => random.values(countOf(dims)));
  const directions = graph.inputs.map(({ dims }) => random.values(countOf(dims)));
  const names = graph.inputs.map(({ name }) => name);
  const feeds = (distance: number): Feeds =>
    Object.fromEntries(
      graph.inputs.map(({ name, dims }, i) => [
        name,
        doubles(
          dims,
          points[i]!.map((value, at) => value + distance * directions[i]![at]!),
        ),
      ]),
    );
  const forward = await openSession(graph.bytes, 'disabled');
  const valueAt = async (distance: number): Promise<number> =>
    Number((await forward(feeds(distance)))[graph.output.name]!.data[0]);
  const slope = ((await valueAt(STEP)) - (await valueAt(-STEP))) / (2 * STEP);
  const gradients = await differentiate(graph.bytes, {
    of: [graph.output.name],
    withRespectTo: names,
    // Ranks of scalars come from a run.
    inputSizes: Object.fromEntries(graph.inputs.map(({ name, dims }) => [name, dims])),
  });
  const backward = await openSession(await gradients.bytes());
  const seeds = { [`gradient/${graph.output.name}`]: doubles([], Float64Array.of(1)) };
  const results = await backward({ ...feeds(0), ...seeds });
  const parts = names.map((name, i) => {
    const gradient = results[`gradient/${name}`]!;
    expect(gradient.dims, `${name} of ${graph.operators.join(' ')}`).toEqual([...graph.inputs[i]!.dims]);
    return gradient.data as Float64Array;
  });
  const whole = parts.reduce((sum, part, i) => sum + dot(part, directions[i]!), 0);
  const scale = parts.reduce((sum, part) => sum + Math.sqrt(dot(part, part)), 1);
  return Math.abs(whole - slope) / scale;
}

describe('finite differences', () => {
  const starts = Array.from({ length: GRAPHS / TOGETHER }, (_, i) => i * TOGETHER);
  it.each(someOf(starts, 5))('graphs from seed %i', async (start) => {
    for (let seed = start; seed < start + TOGETHER; seed++)
      expect(await slopeError(seed), `seed ${seed}`).toBeLessThan(1e-6);
  });
});

/** A random Conv, ConvTranspose or AveragePool: linear in its input, so ⟨g, f(v)⟩ = ⟨∇, v⟩ holds exactly. */
async function windowError(seed: number): Promise<number> {
  const random = new Random(seed);
  const op = ['Conv', 'ConvTranspose', 'AveragePool'][seed % 3]!;
  const axes = 1 + random.below(2);
  const each = (make: () => number): number[] => Array.from({ length: axes }, make);
  const kernel = each(() => 1 + random.below(3));
  const strides = each(() => 1 + random.below(3));
  const dilations = op === 'AveragePool' ? each(() => 1) : each(() => 1 + random.below(2));
  // Pools refuse pads as large as their window.
  const pads = [...kernel, ...kernel].map((size) => random.below(size));
  const group = op === 'AveragePool' ? 1 : 1 + random.below(2);
  const [inGroup, outGroup] = [1 + random.below(6), 1 + random.below(2)];
  const channels = inGroup * group;
  const sizes = [1 + random.below(3), channels, ...each(() => 6 + random.below(5))];
  const weight = op === 'Conv' ? [outGroup * group, inGroup, ...kernel] : [channels, outGroup, ...kernel];
  const attributes: Record<string, NewAttribute> = { kernel_shape: kernel, strides, pads };
  if (op !== 'AveragePool') Object.assign(attributes, { dilations, group });
  else Object.assign(attributes, { count_include_pad: random.below(2) });
  const isWeighted = op !== 'AveragePool';
  const isOpen = random.unit() < 0.5;
  const rank = axes + 2;
  const float32 = ELEMENT_TYPE.float32;
  const dimsOf = (dims: readonly number[]) =>
    dims.map((size, axis) => (isOpen && axis !== 1 ? `d${axis}` : size));
  const bytes = writeModel({
    irVersion: 8,
    opset: 17,
    name: 'window',
    nodes: [{ name: 'n', opType: op, inputs: isWeighted ? ['x', 'w'] : ['x'], outputs: ['y'], attributes }],
    tensors: [],
    inputs: [
      { name: 'x', elemType: float32, dims: dimsOf(sizes) },
      ...(isWeighted ? [{ name: 'w', elemType: float32, dims: weight }] : []),
    ],
    outputs: [{ name: 'y', elemType: float32, dims: Array.from({ length: rank }, (_, axis) => `y${axis}`) }],
  });
  const floats = (dims: readonly number[]): Feeds[string] => ({
    dtype: 'float32',
    dims: [...dims],
    data: Float32Array.from(random.values(countOf(dims))),
  });
  const feeds = { x: floats(sizes), w: floats(weight) };
  const y = (await (await openSession(bytes, 'disabled'))(feeds))['y']!;
  const g = floats(y.dims);
  const withRespectTo = isWeighted ? ['x', 'w'] : ['x'];
  const gradients = await differentiate(bytes, { of: ['y'], withRespectTo });
  const results = await (await openSession(await gradients.bytes()))({ ...feeds, 'gradient/y': g });
  const expected = dot(g.data as Float32Array, y.data as Float32Array);
  const scale =
    Math.sqrt(dot(g.data as Float32Array, g.data as Float32Array)) *
      Math.sqrt(dot(y.data as Float32Array, y.data as Float32Array)) +
    1;
  const errors = withRespectTo.map((name) => {
    const gradient = results[`gradient/${name}`]!;
    const value = feeds[name as 'x' | 'w'];
    expect(gradient.dims, `seed ${seed}: ${op} ${JSON.stringify(attributes)}`).toEqual([...value.dims]);
    return Math.abs(dot(gradient.data as Float32Array, value.data as Float32Array) - expected) / scale;
  });
  return Math.max(...errors);
}

describe('windows', () => {
  it.each(someOf([0, 20, 40, 60, 80, 100], 6))('of random geometry from seed %i', async (start) => {
    for (let seed = start; seed < start + 20; seed++)
      expect(await windowError(seed), `seed ${seed}`).toBeLessThan(1e-5);
  });
});
