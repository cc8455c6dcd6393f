/** Tests on the GPU that announce.ts has found: the device, a session that keeps it warm, and what its numbers may differ by. */
import { createFeatureExtractor, type FeatureExtractor, type Tensor } from 'onnx-tapir';
import { afterAll, beforeAll, expect } from 'vitest';
import { driverSettings, type TestGpu } from './find-gpu.js';
import { SMALL_SIZE, smallNet } from './small-net.js';

const found = process.env['TEST_GPU'] as TestGpu | undefined;
export const hasGpu: boolean = found !== undefined;
/** The device; where `hasGpu` is false, tests are skipped. */
export const gpu: TestGpu = found ?? 'webgpu';
/** Variables of a process on it. CUDA computes in TF32 without this one, which keeps three digits. */
const CUDA_SETTINGS = { NVIDIA_TF32_OVERRIDE: '0' };
export const gpuSettings: Readonly<Record<string, string>> =
  found === undefined ? {} : found === 'cuda:0' ? CUDA_SETTINGS : driverSettings();
Object.assign(process.env, gpuSettings);

/** Images for the small network. */
export function smallImages(rows: number): Tensor<'float32'> {
  const dims = [rows, 3, SMALL_SIZE, SMALL_SIZE];
  const count = rows * 3 * SMALL_SIZE ** 2;
  return { dtype: 'float32', dims, data: Float32Array.from({ length: count }, (_, i) => Math.sin(i * 0.37)) };
}

/**
 * Keeps a session of the small network open for all tests of a file. Sessions of WebGPU in one process share their compiled shaders as
 * long as one is open, and SwiftShader takes seconds to compile those of a network.
 */
export function keepGpuWarm(): void {
  let held: FeatureExtractor<'logits'> | undefined;
  beforeAll(async () => {
    if (!hasGpu) return;
    held = await createFeatureExtractor(smallNet(), ['logits'], { device: gpu });
    await held.run(smallImages(1));
  });
  afterAll(() => held?.close());
}

/** Expects numbers of a GPU to be those of the CPU, except for another order of sums. */
export function expectNear(actual: Tensor, expected: Tensor, relative = 2e-4): void {
  expect(actual.dims).toEqual(expected.dims);
  expectNearNumbers(actual.data as Float32Array, expected.data as Float32Array, relative);
}

/** The same for plain numbers. */
export function expectNearNumbers(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  relative = 2e-4,
): void {
  const [ours, theirs] = [Array.from(actual), Array.from(expected)];
  expect(ours).toHaveLength(theirs.length);
  expect(ours.every(Number.isFinite)).toBe(true);
  const size = theirs.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const worst = theirs.reduce((most, value, i) => Math.max(most, Math.abs(value - ours[i]!)), 0);
  expect(size).toBeGreaterThan(0);
  expect(worst / size).toBeLessThan(relative);
}
