/** Runs of samples, as vectors: one for each row and output. */
import { invalidOption } from '../../../../base/checks.js';
import { findBroken } from '../../../../onnx/tensor/read-feeds.js';
import { takeRow } from '../../../../onnx/tensor/rows.js';
import type { Tensor } from '../../../../onnx/tensor/tensor.js';
import { compareVectors } from '../../../../onnx/tensor/compare-vectors.js';
import { listLargest } from '../../../../onnx/tensor/vectors/largest.js';
import { unitVector } from '../../../../onnx/tensor/vectors/unit-vector.js';
import { floatsOf } from '../../../../onnx/tensor/widen.js';
import type { Sample } from '../run-samples.js';

/** The vectors of some samples: `[output][row]`. */
export type Vectors = readonly (readonly Float32Array[])[];

/** Every second sample is held back to judge; the others give ranges. */
export function isHeldBack(sample: number): boolean {
  return sample % 2 === 1;
}

/** Refuses values from which nothing can be measured: `OPTION_INVALID`. */
export function checkFinite(feeds: Sample, sample: number): void {
  const broken = findBroken(feeds);
  if (!broken) return;
  throw invalidOption('samples', 'finite values', `NaN or infinity in ${broken.name} of sample ${sample}`);
}

/** The rows of outputs, as vectors of the same order for every run of a sample. */
export function rowsOf(outputs: readonly Tensor[]): Float32Array[][] {
  return outputs.map((tensor) => {
    const [rows = 1] = tensor.dims;
    return tensor.dims.length < 2
      ? [vectorOf(tensor)]
      : Array.from({ length: rows }, (_, row) => vectorOf(takeRow(tensor, row)));
  });
}

/** All vectors of some samples, output by output. */
export function joinRows(samples: readonly Vectors[]): Vectors {
  return samples[0]?.map((_, output) => samples.flatMap((one) => one[output]!)) ?? [];
}

function vectorOf(tensor: Tensor): Float32Array {
  return floatsOf(tensor) ?? new Float32Array();
}

/** The least cosine, and the mean, of each output. A row that is not finite counts as 0. */
export function compareRows(
  rounded: Vectors,
  exact: Vectors,
): readonly { readonly least: number; readonly mean: number; readonly rows: number }[] {
  return exact.map((rows, output) => {
    const cosines = rows.map((row, k) => {
      const { cosine } = compareVectors(rounded[output]![k]!, row);
      return Number.isFinite(cosine) ? cosine : 0;
    });
    return {
      least: cosines.reduce((a, b) => Math.min(a, b), Infinity),
      mean: cosines.reduce((a, b) => a + b, 0) / cosines.length,
      rows: cosines.length,
    };
  });
}

const NEIGHBOURS = 10;
/** Cosines that differ by less count as equal: copies of a photo are neighbours in any order. */
const TIE = 1e-6;

/** The share of the ten nearest rows, by cosine, that stay so after rounding; undefined with fewer than twelve: nearly all are neighbours then. */
export function keptNeighbours(
  rounded: readonly Float32Array[],
  exact: readonly Float32Array[],
): number | undefined {
  const count = exact.length;
  if (count < NEIGHBOURS + 2) return undefined;
  const units = exact.map((row) => unitVector(row));
  const roundedUnits = rounded.map((row) => unitVector(row));
  let kept = 0;
  for (let row = 0; row < count; row++) {
    const truth = units.map((unit, other) => (other === row ? -Infinity : dot(units[row]!, unit)));
    const found = roundedUnits.map((unit, other) =>
      other === row ? -Infinity : dot(roundedUnits[row]!, unit),
    );
    const limit = truth[listLargest(truth, NEIGHBOURS).at(-1)!]! - TIE;
    kept += listLargest(found, NEIGHBOURS).filter((other) => truth[other]! >= limit).length;
  }
  return kept / (count * NEIGHBOURS);
}

export function dot(x: Float32Array, y: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i]! * y[i]!;
  return sum;
}
