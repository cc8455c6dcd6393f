/** Vectors of length 1. */

/** Divides a vector by its Euclidean norm, or by `least` if that is larger. A vector of zeros stays zero. `into` may be the vector. */
export function unitVector(
  vector: Float32Array,
  least: number = 0,
  into: Float32Array = new Float32Array(vector.length),
): Float32Array {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const norm = Math.max(Math.sqrt(sum), least);
  for (let i = 0; i < vector.length; i++) into[i] = norm === 0 ? 0 : vector[i]! / norm;
  return into;
}
