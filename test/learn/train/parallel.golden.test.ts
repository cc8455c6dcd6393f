/** Replicas on uneven chunks against torch's: norms that are frozen, of each replica's rows, and of all rows. */
import { type Device } from 'onnx-tapir';
import type { BatchNormTraining } from '../../../src/learn/train/runs/trainer-options.js';
import { describe, expect, it } from 'vitest';
import { sharedNote } from '../../support/fixtures.js';
import { expectSamples, firstRows, readTrainingModel, takeStep } from '../../support/trained.js';
import {
  decode,
  hasTraining,
  readTraining,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';

type Stored = Readonly<Record<string, Summary | StoredTensor>>;

interface ParallelCase {
  readonly N: number;
  readonly devices: number;
  readonly batchNorm: 'frozen' | 'train-per-replica' | 'synchronised';
  readonly loss: number;
  readonly gradients: Stored;
  readonly drift?: Readonly<Record<string, number | null>>;
  /** Those of the first replica. */
  readonly buffersKept?: Stored;
  readonly buffers?: Stored;
}

const MODES: Readonly<Record<ParallelCase['batchNorm'], BatchNormTraining>> = {
  frozen: 'frozen',
  'train-per-replica': 'batch',
  synchronised: 'synced',
};
/** It holds every parameter as torch has it. */
const FILE = 'resnet-basic.ts-unfolded.onnx';

interface ParallelCases {
  readonly input: StoredTensor;
  readonly labels: StoredTensor;
  readonly cases: readonly ParallelCase[];
}

describe.skipIf(!hasTraining)(`replicas against torch${sharedNote}`, () => {
  const { input, labels, cases } = hasTraining
    ? readTraining<ParallelCases>('parallel/cases.json')
    : ({ cases: [] } as unknown as ParallelCases);

  it.each(cases)('$batchNorm: $N rows over $devices devices', async (one) => {
    const devices = Array.from({ length: one.devices }, (_, i): Device => `cpu:${i}`);
    const batch = { input: firstRows(decode(input), one.N), target: firstRows(decode(labels), one.N) };
    const { result, gradients, after } = await takeStep(
      readTrainingModel(FILE),
      { loss: 'cross-entropy', devices, batchNorm: MODES[one.batchNorm] },
      batch,
    );
    expect(Math.abs(result.loss / one.loss - 1)).toBeLessThan(1e-5);
    for (const [name, expected] of Object.entries(one.gradients))
      expectSamples(name, gradients.get(name), expected, { drift: one.drift?.[name] ?? 0, absolute: 1e-6 });
    const buffers = Object.entries(one.buffersKept ?? one.buffers ?? {});
    expect(buffers.length > 0).toBe(one.batchNorm !== 'frozen');
    for (const [name, expected] of buffers)
      if (!name.endsWith('num_batches_tracked')) expectSamples(name, after.get(name), expected);
  });

  it('are nine cases', () => {
    expect(cases).toHaveLength(9);
  });
});
