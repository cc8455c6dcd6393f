/** Stratified folds: each class is dealt out evenly. */
import { createRandom, seedOf, shuffled } from '../../../base/index.js';

/**
 * Puts each row into one of 2 to 255 folds. The rows of a class are shuffled and dealt out one by one; a class begins where the one before
 * it ended, so that the folds are equally large. The same seed gives the same folds.
 */
export function dealFolds(labels: Int32Array, classes: number, folds: number, seed: number): Uint8Array {
  const ofClass = Array.from({ length: classes }, (): number[] => []);
  for (const [row, label] of labels.entries()) ofClass[label]!.push(row);
  const foldOf = new Uint8Array(labels.length);
  let next = 0;
  for (const [label, rows] of ofClass.entries())
    for (const row of shuffled(rows, createRandom(seedOf(seed, 'folds', label))))
      foldOf[row] = next++ % folds;
  return foldOf;
}

/** The number of rows of each class. */
export function countClasses(labels: Int32Array, classes: number): number[] {
  const counts = Array.from({ length: classes }, () => 0);
  for (const label of labels) counts[label]!++;
  return counts;
}
