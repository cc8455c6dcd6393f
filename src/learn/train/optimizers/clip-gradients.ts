/** Clipping of gradients, as torch.nn.utils.clip_grad_norm_ does it. */

/** torch adds this to the norm before it divides. */
const TINY = 1e-6;

/**
 * Scales gradients, in place, so that the length of all elements together is at most `maxNorm`: by min(1, maxNorm / (norm + 1e-6)).
 *
 * @returns The length before, in float64. It is NaN or infinite if an element is; the gradients are then useless, as in torch.
 */
export function clipByNorm(gradients: readonly Float32Array[], maxNorm: number): number {
  let squares = 0;
  for (const gradient of gradients) squares += sumOfSquares(gradient);
  const norm = Math.sqrt(squares);
  const factor = Math.min(1, maxNorm / (norm + TINY));
  if (factor === 1) return norm;
  for (const gradient of gradients)
    for (let i = 0; i < gradient.length; i++) gradient[i] = gradient[i]! * factor;
  return norm;
}

function sumOfSquares(gradient: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < gradient.length; i++) sum += gradient[i]! * gradient[i]!;
  return sum;
}
