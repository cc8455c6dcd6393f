/** Every loss against torch's: its value, and its gradient through the graph that training runs. */
import type { TrainerOptions } from 'onnx-tapir/train';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { fixturePath } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { takeStep } from '../../../support/trained.js';
import { decode, expectClose, type StoredTensor } from '../../../support/training.js';

interface LossCase {
  readonly id: string;
  readonly options: { readonly kind: string; readonly reduction: string; readonly note?: string };
  readonly inputs: Readonly<Record<string, StoredTensor>>;
  readonly value64: number;
  readonly gradients: Readonly<Record<string, StoredTensor>>;
}

/** y = x + w, where w is zero: the gradient of w is that of y. */
function sumModel(dims: readonly number[]): Uint8Array {
  const count = dims.reduce((product, size) => product * size, 1);
  return modelBytes({
    inputs: [{ name: 'x', dims }],
    outputs: [{ name: 'y', dims }],
    nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers: { w: { dims, values: Array.from({ length: count }, () => 0) } },
  });
}

const numbers = (tensor: StoredTensor | undefined) => tensor && [...(decode(tensor).data as Float32Array)];

function lossOf({ options, inputs }: LossCase): TrainerOptions['loss'] {
  const { kind, note: _, ...others } = options;
  const isBinary = kind === 'bce-with-logits';
  return {
    ...others,
    kind: kind.split(' ')[0],
    ...(inputs['weights'] && { weights: numbers(inputs['weights']) }),
    ...(isBinary && inputs['weight'] && { weight: decode(inputs['weight']) }),
    ...(isBinary && inputs['posWeight'] && { posWeight: numbers(inputs['posWeight']) }),
  } as TrainerOptions['loss'];
}

describe('losses against torch', () => {
  const stored = gunzipSync(readFileSync(fixturePath('train/losses.json.gz'))).toString();
  const cases = (JSON.parse(stored) as { cases: readonly LossCase[] }).cases.filter(
    ({ options }) => options.reduction !== 'none',
  );

  it.each(cases)('$id', async (one) => {
    const x = decode(one.inputs['logits'] ?? one.inputs['logp'] ?? one.inputs['input']!);
    const target = decode(one.inputs['labels'] ?? one.inputs['target']!);
    const { result, gradients } = await takeStep(
      sumModel(x.dims),
      { loss: lossOf(one), parameters: 'tensor:w' },
      { input: x, target },
    );
    expect(Math.abs(result.loss - one.value64)).toBeLessThanOrEqual(1e-6 + 1e-5 * Math.abs(one.value64));
    const expected = one.gradients['logits'] ?? one.gradients['logp'] ?? one.gradients['input']!;
    expectClose(one.id, gradients.get('tensor:w')!, expected);
  });

  it('are all reduced cases', () => {
    expect(cases).toHaveLength(29);
  });
});
