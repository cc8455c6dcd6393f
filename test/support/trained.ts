/** What a trainer computes, for comparison with torch: gradients as a step takes them, and tensors against summaries. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Tensor } from 'onnx-tapir';
import { createTrainer, type StepResult, type TrainBatch } from 'onnx-tapir/train';
import { expect } from 'vitest';
import { readCheckpoint } from '../../src/learn/train/runs/checkpoint.js';
import { decode, trainingPath, type StoredTensor, type Summary } from './training.js';

/** A step of torch's momentum starts with the gradient itself: a checkpoint after the first step holds it. */
const KEEPS_GRADIENTS = { kind: 'sgd', lr: 0.001, momentum: 0.5 } as const;
const KEPT = 'optimizer/momentum/';

/** A step, the gradients that it took, and the tensors after it. */
export interface TakenStep {
  readonly result: StepResult;
  /** By torch's names, in torch's layout. */
  readonly gradients: ReadonlyMap<string, Tensor>;
  readonly after: ReadonlyMap<string, Tensor>;
}

/** Takes one step of a model, and reads the gradients it took. */
export async function takeStep(
  model: Uint8Array,
  options: Omit<Parameters<typeof createTrainer>[1], 'optimizer'>,
  batch: TrainBatch,
): Promise<TakenStep> {
  await using trainer = await createTrainer(model, {
    ...options,
    optimizer: KEEPS_GRADIENTS,
  } as Parameters<typeof createTrainer>[1]);
  const result = await trainer.step(batch);
  const folder = mkdtempSync(join(tmpdir(), 'tapir-step-'));
  try {
    await trainer.save(folder);
    const { tensors } = await readCheckpoint(folder);
    const kept = [...tensors].filter(([name]) => name.startsWith(KEPT));
    const gradients = new Map(kept.map(([name, tensor]) => [name.slice(KEPT.length), tensor]));
    return { result, gradients, after: await trainer.stateDict() };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A model of the training fixtures. */
export function readTrainingModel(file: string): Uint8Array {
  return readFileSync(trainingPath(`models/${file}`));
}

/** The first rows of a tensor. */
export function firstRows({ dtype, dims, data }: Tensor, rows: number): Tensor {
  const size = data.length / dims[0]!;
  return { dtype, dims: [rows, ...dims.slice(1)], data: data.slice(0, rows * size) } as Tensor;
}

/** How far float32 of torch itself is from float64, per tensor; null where the exact result is zero. */
export type Drifts = Readonly<Record<string, number | null>>;

/**
 * Expects the samples of a summary, or all elements of a stored tensor: |a − b| ≤ max(1e-5, 10 · drift) · max|b| + absolute.
 *
 * @param noise - Indices to leave out.
 */
export function expectSamples(
  what: string,
  actual: Tensor | undefined,
  expected: Summary | StoredTensor,
  { drift = 0, absolute = 1e-7, noise = [] as readonly number[] } = {},
): void {
  expect(actual?.dims, `${what}: dims`).toEqual(expected.shape);
  const data = actual!.data as Float32Array;
  const samples = samplesOf(expected);
  const tolerance = Math.max(1e-5, 10 * drift) * samples.maxAbs + absolute;
  for (const [at, value] of samples.values)
    if (!noise.includes(at))
      // NaN must fail.
      expect(Math.abs(data[at]! - value), `${what}[${at}]: ${data[at]}, not ${value}`).toBeLessThanOrEqual(
        tolerance,
      );
}

function samplesOf(expected: Summary | StoredTensor) {
  if ('index' in expected)
    return {
      maxAbs: expected.maxAbs,
      values: expected.index.map((at, i) => [at, expected.value[i]!] as const),
    };
  const values = [...(decode(expected).data as Float32Array).entries()];
  return { maxAbs: values.reduce((most, [, value]) => Math.max(most, Math.abs(value)), 0), values };
}
