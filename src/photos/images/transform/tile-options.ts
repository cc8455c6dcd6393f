/** The options of tiles. */
import { checkInteger, invalidOption, type Options } from '../../../base/checks.js';
import { checkedBy, number, oneOf, readOptions, type Fields } from '../../../base/options.js';
import type { Size } from '../pixels/geometry.js';
import type { TileRule } from '../pixels/tile-grid.js';
import { INTERPOLATIONS, type Interpolation } from '../resample/kernel.js';
import type { Colour } from '../resample/resample.js';
import { checkColour, readSides as readBothSides } from './check-transform.js';

/** How a picture is cut into tiles, each of which is then transformed like a photo. */
export interface TileOptions {
  /**
   * Size of a tile in pixels, before the transform: a number for a square, or both sides; each from 1 to 16,384. It must be given.
   */
  readonly size: number | Size;
  /**
   * Pixels that neighbours share, in each direction; less than `size`.
   * @default 0
   */
  readonly overlap: number | Size;
  /**
   * What happens where the picture ends inside a tile: `shift` moves the tile back, so that it lies inside; `pad` fills what is missing.
   * A side that is shorter than a tile is padded either way; the picture lies at the top left.
   * @default 'shift'
   */
  readonly edge: 'shift' | 'pad';
  /**
   * Colour of padding, 0 to 255: one number, or red, green and blue.
   * @default 0
   */
  readonly fill: number | Colour;
  /**
   * Sizes of the picture that are tiled, as factors of both sides above 0, at most 16. They are level 0, 1, … A page of a pyramid TIFF that
   * has exactly the size is taken. Other sizes are resampled from the full one.
   * @default [1]
   */
  readonly scales: readonly number[];
  /**
   * Interpolation of the resampled pictures, as Pillow's.
   * @default 'bilinear'
   */
  readonly interpolation: Interpolation;
  /**
   * Leaves out tiles whose grey values have a smaller standard deviation (0 to 255), as background has. Padding does not count.
   * @default 0
   */
  readonly minStd: number;
}

/** Tile options as users write them: only `size` must be given. */
export type TilesGiven = Options<TileOptions> & Pick<TileOptions, 'size'>;

/** The longest side of a tile. */
const MOST_SIDE = 16_384;
/** The largest factor of a picture. */
const MOST_SCALE = 16;

export const TILE_FIELDS: Fields<TileOptions> = {
  size: checkedBy<TileOptions['size']>(
    (option, value) => checkSides(option, value, 1),
    undefined as unknown as number,
    'cut pictures into tiles of this size, N or HEIGHTxWIDTH',
    parseSides,
  ),
  overlap: checkedBy<TileOptions['overlap']>(
    (option, value) => checkSides(option, value, 0),
    0,
    'pixels that neighbouring tiles share, N or HEIGHTxWIDTH',
    parseSides,
  ),
  edge: oneOf(['shift', 'pad'], 'shift', 'where a picture ends: shift the last tile back inside, or pad it'),
  fill: checkedBy<TileOptions['fill']>(checkColour, 0, 'colour of padding: N or RED,GREEN,BLUE', (text) =>
    text.includes(',') ? readNumbers(text) : Number(text),
  ),
  scales: checkedBy<TileOptions['scales']>(
    checkScales,
    Object.freeze([1]),
    'sizes of the picture that are tiled, as factors: 1,0.5',
    readNumbers,
  ),
  interpolation: oneOf(INTERPOLATIONS, 'bilinear', 'how scales resize pictures'),
  minStd: number(
    0,
    255,
    0,
    'leave out tiles whose grey values have a smaller standard deviation: background',
  ),
};

/** Checked options, as the grid takes them. */
export interface TilePlan extends TileRule, Omit<TileOptions, keyof TileRule | 'fill'> {
  readonly fill: Colour;
}

/** Checks the options of tiles. Throws `OPTION_INVALID`. */
export function planTiles(given: TilesGiven): TilePlan {
  const options = readOptions(TILE_FIELDS, given, 'tiles', 'tiles.');
  const [size, overlap] = [bothSides(options.size), bothSides(options.overlap)];
  if (overlap.height >= size.height || overlap.width >= size.width)
    throw invalidOption('tiles.overlap', 'smaller than tiles.size', given.overlap);
  const { fill } = options;
  return { ...options, size, overlap, fill: typeof fill === 'number' ? [fill, fill, fill] : fill };
}

function bothSides(given: number | Size): Size {
  return typeof given === 'number' ? { height: given, width: given } : given;
}

function checkSides(option: string, value: unknown, least: number): number | Size {
  if (typeof value === 'number') return checkInteger(option, value, least, MOST_SIDE);
  const sides = readBothSides(option, value, least, MOST_SIDE);
  if (sides) return sides;
  throw invalidOption(option, 'a number of pixels, or { height, width }', value);
}

function checkScales(option: string, value: unknown): readonly number[] {
  const isScale = (one: unknown): boolean => typeof one === 'number' && one > 0 && one <= MOST_SCALE;
  if (Array.isArray(value) && value.length > 0 && value.length <= MOST_SCALE && value.every(isScale))
    return Object.freeze([...(value as number[])]);
  throw invalidOption(option, `a list of 1 to 16 numbers above 0, at most ${MOST_SCALE} each`, value);
}

/** Reads `512`, `512x768` or `512×768`; other texts are left for the check. */
export function parseSides(text: string): unknown {
  const [, height, width] = /^(\d+)[x×](\d+)$/.exec(text) ?? [];
  if (height !== undefined) return { height: Number(height), width: Number(width) };
  return /^\d+$/.test(text) ? Number(text) : text;
}

function readNumbers(text: string): number[] {
  return text.split(',').map(Number);
}
