/** Attention with rows that are masked out altogether, as padding is: ONNX Runtime and torch give zeros, whose gradient is zero. */
import { describe, expect, it } from 'vitest';
import { ELEMENT_TYPE } from '../../../../src/onnx/file/wire/schema.js';
import { writeModel } from '../../../../src/onnx/file/wire/write-model.js';
import { openSession, runGradients } from '../../../support/gradients.js';
import { Random } from '../../../support/random-graphs.js';

const [TOKENS, CHANNELS] = [3, 2];
const random = new Random(7);
const matrices = () => ({
  dtype: 'float32' as const,
  dims: [1, 1, TOKENS, CHANNELS],
  data: Float32Array.from({ length: TOKENS * CHANNELS }, () => random.unit()),
});
const boolean = (bits: readonly number[]) => ({ dtype: 'bool', data: Uint8Array.from(bits) }) as const;
const added = (terms: readonly number[]) => ({ dtype: 'float32', data: Float32Array.from(terms) }) as const;

function attention(maskType: 'bool' | 'float32', isCausal: boolean): Uint8Array {
  const dims = [1, 1, TOKENS, CHANNELS];
  const elemType = ELEMENT_TYPE.float32;
  return writeModel({
    irVersion: 10,
    opset: 23,
    name: 'attention',
    nodes: [
      {
        name: 'attention',
        opType: 'Attention',
        inputs: ['q', 'k', 'v', 'mask'],
        outputs: ['y'],
        attributes: { is_causal: Number(isCausal) },
      },
    ],
    tensors: [],
    inputs: [
      ...['q', 'k', 'v'].map((name) => ({ name, elemType, dims })),
      { name: 'mask', elemType: ELEMENT_TYPE[maskType], dims: [TOKENS, TOKENS] },
    ],
    outputs: [{ name: 'y', elemType, dims }],
  });
}

const NEVER = -Infinity;

describe('Attention', () => {
  // The first row is masked out: by the mask alone, or together with the order of tokens.
  it.each([
    ['booleans', boolean([0, 0, 0, 1, 1, 0, 1, 0, 1]), false],
    ['terms', added([NEVER, NEVER, NEVER, 0, 0.5, NEVER, 0, 0, 1]), false],
    ['booleans and order', boolean([0, 1, 1, 1, 1, 1, 1, 0, 1]), true],
    ['terms and order', added([NEVER, 0, 0, 0, 0.5, 0, 0, 0, 1]), true],
  ])('has no gradient through a row that is masked out: %s', async (_, given, isCausal) => {
    const bytes = attention(given.dtype, isCausal);
    const mask = { ...given, dims: [TOKENS, TOKENS] };
    const feeds = { q: matrices(), k: matrices(), v: matrices(), mask };
    const { y } = await (await openSession(bytes))(feeds);
    expect([...(y!.data as Float32Array).subarray(0, CHANNELS)]).toEqual([0, 0]);

    const seed = matrices();
    const unseeded = { ...seed, data: seed.data.map((value, i) => (i < CHANNELS ? 0 : value)) };
    const names = ['q', 'k', 'v'];
    const gradients = await runGradients(bytes, names, { y: seed }, feeds);
    expect(gradients).toEqual(await runGradients(bytes, names, { y: unseeded }, feeds));
    for (const name of names)
      expect([...(gradients[name]!.data as Float32Array)].every(Number.isFinite)).toBe(true);
  });
});
