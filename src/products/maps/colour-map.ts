/** Values → colours whose lightness rises evenly: maps of matplotlib (Smith, van der Walt and Firing, CC0), at nine stops. */

export type Colour = readonly [red: number, green: number, blue: number];

/** The share of a heat map's or a mask's colours over a photo where nobody says another. */
export const HEATMAP_OPACITY = 0.55;

/** For heat maps. */
export const INFERNO: readonly Colour[] = [
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

/** For feature maps. */
export const VIRIDIS: readonly Colour[] = [
  [68, 1, 84],
  [71, 45, 123],
  [59, 82, 139],
  [44, 114, 142],
  [33, 145, 140],
  [40, 174, 128],
  [94, 201, 98],
  [173, 220, 48],
  [253, 231, 37],
];

/** The colour of a value from 0 to 1. */
export function colourOf(value: number, stops: readonly Colour[]): Colour {
  const place = Math.min(1, Math.max(0, value)) * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  const share = place - first;
  const [from, to] = [stops[first]!, stops[first + 1]!];
  const mix = (channel: 0 | 1 | 2): number => from[channel] * (1 - share) + to[channel] * share;
  return [mix(0), mix(1), mix(2)];
}
