/** Places on the map. This file uses no part of the browser. */

/** Pixels from the top left corner of the map. */
export interface Place {
  readonly x: number;
  readonly y: number;
}

/** x and y of each point in turn. */
export type Places = Float32Array;

/** The zoom relative to the whole map, and how far the map was moved. */
export interface View {
  readonly zoom: number;
  readonly panX: number;
  readonly panY: number;
}

/** Pixels between the outermost points and the edge of the map. */
export const MAP_MARGIN = 44;

export const WHOLE: View = { zoom: 1, panX: 0, panY: 0 };
const MAX_ZOOM = 64;

/** How much longer one axis of UMAP may be drawn than the other: what it says is who is near, not how far apart. */
export const UMAP_STRETCH = 2;

/**
 * Fits points into a rectangle, y upwards.
 *
 * @param stretch - The largest ratio of the scales of the two axes; 1 for equal scales.
 */
export function fitPoints(
  points: Float32Array,
  width: number,
  height: number,
  margin: number,
  stretch = 1,
): Places {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    left = Math.min(left, points[i]!);
    right = Math.max(right, points[i]!);
    bottom = Math.min(bottom, points[i + 1]!);
    top = Math.max(top, points[i + 1]!);
  }
  const scales = [
    (width - 2 * margin) / Math.max(right - left, Number.MIN_VALUE),
    (height - 2 * margin) / Math.max(top - bottom, Number.MIN_VALUE),
  ];
  const most = Math.min(...scales) * stretch;
  // Infinite if all points are in one place.
  const [scaleX, scaleY] = scales.map((scale) => (Number.isFinite(most) ? Math.min(scale, most) : 0));
  const places = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 2) {
    places[i] = width / 2 + (points[i]! - (left + right) / 2) * scaleX!;
    places[i + 1] = height / 2 - (points[i + 1]! - (bottom + top) / 2) * scaleY!;
  }
  return places;
}

/** Zooms by a factor around a place. The map never becomes smaller than the whole, and the whole is always centred. */
export function zoomAt(view: View, factor: number, at: Place, centre: Place): View {
  const zoom = Math.min(MAX_ZOOM, Math.max(1, view.zoom * factor));
  if (zoom === 1) return WHOLE;
  const ratio = zoom / view.zoom;
  return {
    zoom,
    panX: at.x - centre.x - (at.x - centre.x - view.panX) * ratio,
    panY: at.y - centre.y - (at.y - centre.y - view.panY) * ratio,
  };
}

/** Which points there are, for searches; undefined for all. */
type Among = { has(point: number): boolean } | undefined;

/** The point nearest to a place, if it lies within a radius. */
export function nearestPoint(
  places: Places,
  { x, y }: Place,
  radius: number,
  among?: Among,
): number | undefined {
  let best: number | undefined;
  let least = radius * radius;
  for (let i = 0; i < places.length; i += 2) {
    const distance = (places[i]! - x) ** 2 + (places[i + 1]! - y) ** 2;
    if (distance <= least && among?.has(i / 2) !== false) {
      least = distance;
      best = i / 2;
    }
  }
  return best;
}

/** The points inside a line that is drawn around them, by the even-odd rule. */
export function pointsInside(places: Places, line: readonly Place[]): number[] {
  const inside: number[] = [];
  for (let i = 0; i < places.length; i += 2) {
    const [x, y] = [places[i]!, places[i + 1]!];
    let isInside = false;
    line.forEach((a, at) => {
      const b = line.at(at - 1)!;
      if (a.y > y !== b.y > y && x < a.x + ((b.x - a.x) * (y - a.y)) / (b.y - a.y)) isInside = !isInside;
    });
    if (isInside) inside.push(i / 2);
  }
  return inside;
}

/** The four directions of the arrow keys. */
export const DIRECTIONS: Readonly<Record<string, Place>> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

/** How much a distance aside counts, compared with a distance ahead. */
const ASIDE = 2.5;

/**
 * The next point in a direction: the nearest point within 45° of it, preferably straight ahead; without such a point, the nearest point
 * ahead at any angle. Points in exactly the same place follow one another by number.
 */
export function nextInDirection(
  places: Places,
  from: number,
  { x, y }: Place,
  among?: Among,
): number | undefined {
  const [fromX, fromY] = [places[from * 2]!, places[from * 2 + 1]!];
  let best: number | undefined;
  let least = Infinity;
  let bestIsAhead = false;
  let same: number | undefined;
  for (let i = 0; i < places.length / 2; i++) {
    if (i === from || among?.has(i) === false) continue;
    const [dx, dy] = [places[i * 2]! - fromX, places[i * 2 + 1]! - fromY];
    if (dx === 0 && dy === 0) {
      // The next number for right and down, the previous one for left and up.
      if (x + y > 0 ? i > from && same === undefined : i < from) same = i;
      continue;
    }
    const ahead = dx * x + dy * y;
    const aside = Math.abs(dx * y) + Math.abs(dy * x);
    if (ahead <= 0) continue;
    const isAhead = aside <= ahead;
    if (bestIsAhead && !isAhead) continue;
    const score = ahead + ASIDE * aside;
    if (score < least || (isAhead && !bestIsAhead)) {
      least = score;
      best = i;
      bestIsAhead = isAhead;
    }
  }
  return same ?? best;
}
