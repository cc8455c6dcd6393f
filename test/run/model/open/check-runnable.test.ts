/** Types and versions that onnxruntime-node cannot run: refused before a session is opened, with what to do. */
import { createFeatureExtractor, pruneModel, type Extractor, type TensorLike } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const [FLOAT, BFLOAT16, FLOAT16, INT64] = [1, 16, 10, 7];
const cast = (from: number, to: number, isStated = true): GraphSpec => ({
  inputs: [{ name: 'x', dims: ['n'], elemType: from }],
  outputs: isStated ? [{ name: 'y', dims: ['n'], elemType: to }] : [],
  nodes: [{ op: 'Cast', inputs: ['x'], outputs: ['y'], ints: { to } }],
});

async function runOnce(extractor: Extractor<'y'>, input: TensorLike): Promise<unknown[]> {
  const { y } = await extractor.run(input);
  await extractor.close();
  return [y.dtype, ...y.data];
}

describe('bfloat16', () => {
  it('cannot be fed: the message says where to cut', async () => {
    const opening = createFeatureExtractor(modelBytes(cast(BFLOAT16, FLOAT)), ['y']);
    await expect(opening).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(
        /input "x" is bfloat16, which cannot be fed; cut .* \(option "inputs"\)/,
      ),
    });
  });

  it('cannot be given out: as float32 it can', async () => {
    const bytes = modelBytes(cast(FLOAT, BFLOAT16));
    await expect(createFeatureExtractor(bytes, ['y'], { outputDtype: 'keep' })).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(
        /output "y" is bfloat16, which cannot be fetched; .*outputDtype "float32"/,
      ),
    });
    const extractor = await createFeatureExtractor(bytes, ['y']);
    const input = { dtype: 'float32', dims: [2], data: Float32Array.of(1.00001, -2) };
    expect(await runOnce(extractor, input)).toEqual(['float32', 1, -2]);
  });

  it('that the file does not state is told as well', async () => {
    await expect(
      createFeatureExtractor(modelBytes(cast(FLOAT, BFLOAT16, false)), ['y']),
    ).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      message: expect.stringMatching(/16 is bfloat16.*Cast to float32/),
    });
  });

  it('may be inside the graph, at the edge of a pruned file, and after the cut', async () => {
    const pruned = await pruneModel(modelBytes(cast(BFLOAT16, FLOAT)), ['y']);
    expect((await pruned.bytes()).byteLength).toBeGreaterThan(0);
    const inside: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      nodes: [
        { op: 'Cast', inputs: ['x'], outputs: ['b'], ints: { to: BFLOAT16 } },
        { op: 'Cast', inputs: ['b'], outputs: ['y'], ints: { to: FLOAT } },
      ],
    };
    const extractor = await createFeatureExtractor(modelBytes(inside), ['y']);
    const input = { dtype: 'float32', dims: [1], data: Float32Array.of(3) };
    expect(await runOnce(extractor, input)).toEqual(['float32', 3]);
  });
});

describe('IR version 14', () => {
  const bytes = modelBytes(cast(FLOAT, INT64), { irVersion: 14 });

  it('is refused with both numbers and the way to 13', async () => {
    await expect(createFeatureExtractor(bytes, ['y'])).rejects.toMatchObject({
      code: 'SESSION_FAILED',
      details: { device: 'cpu' },
      message: expect.stringMatching(/IR version 14, and ONNX Runtime reads up to 13.*ir_version = 13/),
    });
  });

  it('can be cut nevertheless', async () => {
    const pruned = await pruneModel(bytes, ['y']);
    expect([...(await pruned.bytes())]).toEqual([...bytes]);
  });
});

describe('float16', () => {
  const bytes = modelBytes(cast(FLOAT16, FLOAT16));
  // 1, 1.5 and -2.
  const bits = Uint16Array.of(0x3c00, 0x3e00, 0xc000);
  const isolations = ['thread', 'process'] as const;

  it.each(isolations)('is fed and fetched as bits, in a %s', async (isolation) => {
    const extractor = await createFeatureExtractor(bytes, ['y'], { isolation, outputDtype: 'keep' });
    expect(await runOnce(extractor, { dtype: 'float16', dims: [3], data: bits })).toEqual([
      'float16',
      ...bits,
    ]);
  });

  it.each(isolations)('is taken from a Float16Array, in a %s', async (isolation) => {
    const extractor = await createFeatureExtractor(bytes, ['y'], { isolation, outputDtype: 'keep' });
    const data = float16Array(bits);
    expect(await runOnce(extractor, { dtype: 'float16', dims: [3], data })).toEqual(['float16', ...bits]);
  });
});

/** The engine's own where it has one; Node 20 and 22 have none. */
function float16Array(bits: Uint16Array): Exclude<TensorLike['data'], readonly string[]> {
  type Make = new (buffer: ArrayBufferLike) => Int16Array;
  class Float16Array extends Int16Array {
    override get [Symbol.toStringTag](): 'Int16Array' {
      return 'Float16Array' as 'Int16Array';
    }
  }
  const own = (globalThis as { Float16Array?: Make }).Float16Array ?? (Float16Array as Make);
  return new own(bits.buffer);
}
