/** What sums values up. */

/** Figures about values. */
export interface Figures {
  readonly mean: number;
  readonly std: number;
  readonly least: number;
  readonly largest: number;
  /** Elements that are zero. */
  readonly zeros: number;
  /** Elements that are NaN or infinite; the other figures leave them out. */
  readonly notFinite: number;
}

/** Measures values. Those that are not finite are counted, and left out of the other figures. */
export function measureFigures(values: Float32Array): Figures {
  let [finite, sum, zeros] = [0, 0, 0];
  let [least, largest] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    finite++;
    sum += value;
    if (value === 0) zeros++;
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  if (finite === 0) [least, largest] = [0, 0];
  const mean = finite === 0 ? 0 : sum / finite;
  let squares = 0;
  for (const value of values) if (Number.isFinite(value)) squares += (value - mean) ** 2;
  const std = finite === 0 ? 0 : Math.sqrt(squares / finite);
  return { mean, std, least, largest, zeros, notFinite: values.length - finite };
}
