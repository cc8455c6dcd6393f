/** Clipping of gradients, as torch.nn.utils does it. */
import { invalidOption } from '../../base/checks.js';
import { checkNumber } from '../../base/checks.js';

/** torch adds this to the norm before it divides. */
const TINY = 1e-6;

/** The norms of torch that are used: the sum of sizes, the Euclidean length, and the largest size. */
const NORMS: ReadonlyMap<number, (gradients: readonly Float32Array[]) => number> = new Map([
  [1, (gradients) => gradients.map(sumOfSizes).reduce((total, sum) => total + sum, 0)],
  [2, (gradients) => Math.sqrt(gradients.map(sumOfSquares).reduce((total, sum) => total + sum, 0))],
  [Infinity, (gradients) => gradients.map(largestSize).reduce((most, size) => Math.max(most, size), 0)],
]);

/**
 * The norm of all elements of all gradients together, in float64.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for another norm than 1, 2 and Infinity.
 */
export function totalNorm(gradients: readonly Float32Array[], normType = 2): number {
  const norm = NORMS.get(normType);
  if (!norm) throw invalidOption('normType', '1, 2 or Infinity', normType);
  return norm(gradients);
}

/**
 * Scales gradients, in place, so that their norm is at most `maxNorm`: by min(1, maxNorm / (norm + 1e-6)), as
 * torch.nn.utils.clip_grad_norm_ does.
 *
 * @param gradients - Changed in place.
 * @param maxNorm - From 0.
 * @param normType - 1 (the sum of sizes), 2 (the Euclidean length) or Infinity (the largest size).
 * @returns The norm before. It is NaN or infinite if an element is; the gradients are then useless, as in torch.
 *
 * @throws {@link TapirError} `OPTION_INVALID`.
 */
export function clipByNorm(gradients: readonly Float32Array[], maxNorm: number, normType = 2): number {
  checkNumber('maxNorm', maxNorm, 0);
  const norm = totalNorm(gradients, normType);
  const factor = Math.min(1, maxNorm / (norm + TINY));
  if (factor === 1) return norm;
  for (const gradient of gradients)
    for (let i = 0; i < gradient.length; i++) gradient[i] = gradient[i]! * factor;
  return norm;
}

/**
 * Limits every element of gradients, in place, to the range from −limit to limit, as torch.nn.utils.clip_grad_value_ does.
 *
 * @param limit - From 0.
 * @throws {@link TapirError} `OPTION_INVALID`.
 */
export function clipByValue(gradients: readonly Float32Array[], limit: number): void {
  checkNumber('limit', limit, 0);
  for (const gradient of gradients)
    for (let i = 0; i < gradient.length; i++) gradient[i] = Math.max(-limit, Math.min(limit, gradient[i]!));
}

function sumOfSizes(gradient: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < gradient.length; i++) sum += Math.abs(gradient[i]!);
  return sum;
}

function sumOfSquares(gradient: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < gradient.length; i++) sum += gradient[i]! * gradient[i]!;
  return sum;
}

function largestSize(gradient: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < gradient.length; i++) largest = Math.max(largest, Math.abs(gradient[i]!));
  return largest;
}
