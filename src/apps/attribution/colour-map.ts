/** Values → colours whose lightness rises evenly: matplotlib's "inferno" (Smith, van der Walt and Firing, CC0), at nine stops. */

export type Colour = readonly [red: number, green: number, blue: number];

const STOPS: readonly Colour[] = [
  [0, 0, 4],
  [33, 12, 74],
  [87, 16, 110],
  [138, 34, 106],
  [188, 55, 84],
  [228, 90, 49],
  [249, 142, 9],
  [249, 203, 53],
  [252, 255, 164],
];

/** The colour of a value from 0 to 1. */
export function colourOf(value: number): Colour {
  const place = Math.min(1, Math.max(0, value)) * (STOPS.length - 1);
  const first = Math.min(Math.floor(place), STOPS.length - 2);
  const share = place - first;
  const [from, to] = [STOPS[first]!, STOPS[first + 1]!];
  const mix = (channel: 0 | 1 | 2): number => from[channel] * (1 - share) + to[channel] * share;
  return [mix(0), mix(1), mix(2)];
}
