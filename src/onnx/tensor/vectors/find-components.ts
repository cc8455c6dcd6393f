/** Principal component analysis, loaded where it is needed: most of the package does without its library. */
import { createBreathe, type Breathe } from './breathe.js';
import type { Matrix } from './cosine.js';
import type { Components } from './principal-components.js';

/** Finds the first components of the rows of a matrix. */
export async function findComponents(
  matrix: Matrix,
  count: number,
  breathe: Breathe = createBreathe(undefined),
): Promise<Components> {
  const { principalComponents } = await import('./principal-components.js');
  return await principalComponents(matrix, count, breathe);
}
