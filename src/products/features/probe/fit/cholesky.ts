/** Cholesky's factor L of a symmetric matrix L·Lᵀ, and the systems that it solves. */

/** Puts the factor of a `size × size` matrix into its lower half. What depends on a direction without spread becomes 0 in solutions. */
export function factorize(matrix: Float64Array, size: number): void {
  for (let i = 0; i < size; i++) {
    const row = i * size;
    const inFours = i - (i % 4);
    // Each element has a limit of its own, a share of its spread: scales differ.
    const least = size * Number.EPSILON * matrix[row + i]!;
    for (let j = 0; j <= i; j++) {
      if (j % 4 === 0 && j < inFours) subtractFour(matrix, size, row, j);
      let sum = matrix[row + j]!;
      const done = j < inFours ? j - (j % 4) : 0;
      for (let k = done, b = j * size + done; k < j; k++) sum -= matrix[row + k]! * matrix[b++]!;
      if (j < i) matrix[row + j] = sum / matrix[j * size + j]!;
      else matrix[row + i] = sum > least ? Math.sqrt(sum) : Infinity;
    }
  }
}

/** Subtracts from four elements of a row what the columns before the first one contribute: sums that do not wait for each other. */
function subtractFour(matrix: Float64Array, size: number, row: number, first: number): void {
  let a = matrix[row + first]!;
  let b = matrix[row + first + 1]!;
  let c = matrix[row + first + 2]!;
  let d = matrix[row + first + 3]!;
  for (let k = 0, at = first * size; k < first; k++, at++) {
    const value = matrix[row + k]!;
    a -= value * matrix[at]!;
    b -= value * matrix[at + size]!;
    c -= value * matrix[at + 2 * size]!;
    d -= value * matrix[at + 3 * size]!;
  }
  matrix[row + first] = a;
  matrix[row + first + 1] = b;
  matrix[row + first + 2] = c;
  matrix[row + first + 3] = d;
}

/** Solves L·x = vector, in place. */
export function solveLower(factor: Float64Array, vector: Float64Array): void {
  const size = vector.length;
  for (let i = 0; i < size; i++) {
    const row = i * size;
    let sum = vector[i]!;
    for (let k = 0; k < i; k++) sum -= factor[row + k]! * vector[k]!;
    vector[i] = sum / factor[row + i]!;
  }
}

/** Solves Lᵀ·x = vector, in place: row by row, so that the factor is read in its order. */
export function solveUpper(factor: Float64Array, vector: Float64Array): void {
  const size = vector.length;
  for (let i = size - 1; i >= 0; i--) {
    const row = i * size;
    const value = vector[i]! / factor[row + i]!;
    vector[i] = value;
    for (let k = 0; k < i; k++) vector[k]! -= factor[row + k]! * value;
  }
}

/** Computes Lᵀ·vector. A direction without spread stays 0. */
export function multiplyUpper(factor: Float64Array, vector: Float64Array, product: Float64Array): void {
  const size = vector.length;
  product.fill(0);
  for (let i = 0; i < size; i++) {
    const row = i * size;
    if (factor[row + i] === Infinity) continue;
    for (let k = 0; k <= i; k++) product[k]! += factor[row + k]! * vector[i]!;
  }
}

/** The inverse of a factor L, with zeros in its upper half. A direction without spread is 0 in it. */
export function invertLower(factor: Float64Array, size: number): Float64Array {
  const inverse = new Float64Array(factor.length);
  for (let i = 0; i < size; i++) {
    const row = i * size;
    const scale = 1 / factor[row + i]!;
    // Row i: -scale · Σ L[i, k] · row k of the inverse.
    for (let k = 0; k < i; k++) {
      const share = factor[row + k]! * scale;
      if (share === 0) continue;
      for (let j = 0, from = k * size; j <= k; j++) inverse[row + j]! -= share * inverse[from + j]!;
    }
    inverse[row + i] = scale;
  }
  return inverse;
}
