/** Rules that integrate over the path of integrated gradients, from 0 to 1. */

export const PATH_RULES = ['gausslegendre', 'middle', 'trapezoid', 'left', 'right'] as const;

/** How the integral along the path is approximated. */
export type PathRule = (typeof PATH_RULES)[number];

/** A point of the path, and its share of the integral. The shares add up to 1. */
export interface PathPoint {
  readonly alpha: number;
  readonly weight: number;
}

/** The points of a rule. The trapezoid takes at least two. */
export function pathPoints(rule: PathRule, steps: number): PathPoint[] {
  if (rule === 'gausslegendre') return gaussLegendre(steps);
  const numbers = Array.from({ length: steps }, (_, i) => i);
  if (rule === 'trapezoid')
    return numbers.map((i) => ({
      alpha: i / (steps - 1),
      weight: (i === 0 || i === steps - 1 ? 0.5 : 1) / (steps - 1),
    }));
  const shift = { left: 0, middle: 0.5, right: 1 }[rule];
  return numbers.map((i) => ({ alpha: (i + shift) / steps, weight: 1 / steps }));
}

/** The roots of the Legendre polynomial by Newton's method, and the weights of Gauss's quadrature. */
function gaussLegendre(steps: number): PathPoint[] {
  return Array.from({ length: steps }, (_, i) => {
    let root = Math.cos((Math.PI * (i + 0.75)) / (steps + 0.5));
    let slope = 1;
    for (let round = 0; round < 10; round++) {
      let [before, value] = [1, root];
      for (let degree = 2; degree <= steps; degree++)
        [before, value] = [value, ((2 * degree - 1) * root * value - (degree - 1) * before) / degree];
      slope = (steps * (root * value - before)) / (root ** 2 - 1);
      root -= value / slope;
    }
    return { alpha: (1 - root) / 2, weight: 1 / ((1 - root ** 2) * slope ** 2) };
  });
}
