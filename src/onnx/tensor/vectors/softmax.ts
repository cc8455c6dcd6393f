/** The softmax of a vector. */

/** Turns logits into probabilities, in double precision. `into` may be the logits. */
export function softmax(
  logits: ArrayLike<number>,
  into: Float64Array = new Float64Array(logits.length),
): Float64Array {
  let most = -Infinity;
  for (let k = 0; k < logits.length; k++) most = Math.max(most, logits[k]!);
  let sum = 0;
  for (let k = 0; k < logits.length; k++) sum += into[k] = Math.exp(logits[k]! - most);
  for (let k = 0; k < logits.length; k++) into[k]! /= sum;
  return into;
}
