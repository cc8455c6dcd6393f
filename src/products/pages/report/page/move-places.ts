/** Moves points from one map to another. */
import type { Places } from './geometry.js';

const MOVE_MS = 500;

/** Shows the places between two maps until `show` returns false; nothing where the reader wants no motion. */
export function movePlaces(before: Places, after: Places, show: (places: Places) => boolean): void {
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  const started = performance.now();
  const step = (): void => {
    const time = Math.min(1, (performance.now() - started) / MOVE_MS);
    const eased = time < 0.5 ? 4 * time ** 3 : 1 - (2 - 2 * time) ** 3 / 2;
    const places = after.map((value, i) => before[i]! + (value - before[i]!) * eased);
    if (show(places) && time < 1) requestAnimationFrame(step);
  };
  step();
}
