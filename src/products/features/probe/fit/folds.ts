/** Stratified folds: each class is dealt out evenly. */
import { createRandom, seedOf, shuffled } from '../../../../base/random.js';
import { groupBy } from '../../../../base/group-by.js';

/** What folds are dealt of. */
export interface Deal {
  /** The class of each row. */
  readonly labels: Int32Array;
  readonly classes: number;
  /** The photo of each row, of which it is a part; undefined where each row is a photo. The rows of a photo stay together. */
  readonly photos: Int32Array | undefined;
}

/**
 * Puts each row into one of 2 to 255 folds. The photos of a class are shuffled and dealt out one by one. Each goes to the fold that has the
 * fewest rows of the class. A class begins where the one before it ended, so that the folds are equally large. The same seed gives the same
 * folds.
 */
export function dealFolds({ labels, classes, photos }: Deal, folds: number, seed: number): Uint8Array {
  const rowsOf = photos && groupBy(labels.keys(), (row) => photos[row]!);
  /** The first row of each photo. */
  const ofClass = Array.from({ length: classes }, (): number[] => []);
  for (const [row, label] of labels.entries())
    if (!rowsOf || rowsOf.get(photos![row]!)![0] === row) ofClass[label]!.push(row);
  const foldOf = new Uint8Array(labels.length);
  let next = 0;
  for (const [label, dealt] of ofClass.entries()) {
    const filled = Array.from({ length: folds }, () => 0);
    for (const row of shuffled(dealt, createRandom(seedOf(seed, 'folds', label)))) {
      const rows = rowsOf?.get(photos![row]!) ?? [row];
      const fold = rowsOf ? emptiest(filled, next % folds) : next % folds;
      next++;
      filled[fold]! += rows.length;
      for (const one of rows) foldOf[one] = fold;
    }
  }
  return foldOf;
}

/** The place of the least number, the first one from a place on. */
function emptiest(filled: readonly number[], from: number): number {
  let best = from;
  for (let k = 1; k < filled.length; k++) {
    const place = (from + k) % filled.length;
    if (filled[place]! < filled[best]!) best = place;
  }
  return best;
}

/** The number of rows of each class. */
export function countClasses(labels: Int32Array, classes: number): number[] {
  const counts = Array.from({ length: classes }, () => 0);
  for (const label of labels) counts[label]!++;
  return counts;
}
