/** Where the tiles of a picture lie. Arithmetic only. */
import type { Region, Size } from './geometry.js';

/** What a tile covers, in pixels of the full picture. */
export interface Tile {
  /** The index of its scale. */
  readonly level: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** How a picture is cut. */
export interface TileRule {
  readonly size: Size;
  readonly overlap: Size;
  readonly edge: 'shift' | 'pad';
  readonly scales: readonly number[];
}

/** A tile of a grid. */
export interface GridTile {
  readonly index: number;
  readonly tile: Tile;
  /** The part of the scaled picture that it covers: smaller than a tile where the picture ends. */
  readonly region: Region;
}

/** Consecutive tiles of one row of a level. */
export interface TileRun {
  readonly level: number;
  readonly tiles: readonly GridTile[];
  /** The part of the scaled picture that they cover together. */
  readonly region: Region;
}

/** The most tiles of a run, and the most pixels of their tiles: they are read at once. */
const MOST_IN_RUN = 16;
const MOST_RUN_PIXELS = 2 ** 20;

/** How many tiles are read at once. */
export function runLength({ height, width }: Size): number {
  return Math.max(1, Math.min(MOST_IN_RUN, Math.floor(MOST_RUN_PIXELS / (height * width))));
}

interface Level {
  readonly size: Size;
  readonly tops: readonly number[];
  readonly lefts: readonly number[];
  /** The index of its first tile. */
  readonly first: number;
}

/** A side of a scaled picture. */
function scaledSide(side: number, scale: number): number {
  return Math.max(1, Math.floor(side * scale + 0.5));
}

/** The tiles of a picture, row by row, level by level. */
export class TileGrid {
  readonly #picture: Size;
  readonly #size: Size;
  readonly #levels: readonly Level[];
  /** How many tiles there are. */
  readonly count: number;

  constructor(picture: Size, { size, overlap, edge, scales }: TileRule) {
    let first = 0;
    this.#picture = picture;
    this.#size = size;
    this.#levels = scales.map((scale) => {
      const scaled = {
        height: scaledSide(picture.height, scale),
        width: scaledSide(picture.width, scale),
      };
      const startsOf = (side: keyof Size): number[] => starts(scaled[side], size[side], overlap[side], edge);
      const level = { size: scaled, tops: startsOf('height'), lefts: startsOf('width'), first };
      first += level.tops.length * level.lefts.length;
      return level;
    });
    this.count = first;
  }

  /** The sizes of the scaled pictures. */
  get sizes(): readonly Size[] {
    return this.#levels.map(({ size }) => size);
  }

  /** The tiles from `first` on that are read at once: a few, all in one row. */
  run(first: number): TileRun {
    const most = runLength(this.#size);
    const level = this.#levels.findLastIndex((one) => one.first <= first);
    const { size, tops, lefts, first: begin } = this.#levels[level]!;
    const row = Math.floor((first - begin) / lefts.length);
    const column = (first - begin) % lefts.length;
    const top = tops[row]!;
    const height = Math.min(this.#size.height, size.height - top);
    const down = (rows: number): number => (rows * this.#picture.height) / size.height;
    const across = (columns: number): number => (columns * this.#picture.width) / size.width;
    const tiles = lefts.slice(column, column + most).map((left, i) => {
      const width = Math.min(this.#size.width, size.width - left);
      const tile = { level, x: across(left), y: down(top), width: across(width), height: down(height) };
      return { index: first + i, tile, region: { top, left, height, width } };
    });
    const [{ region: start }, { region: end }] = [tiles[0]!, tiles.at(-1)!];
    const region = { top, left: start.left, height, width: end.left + end.width - start.left };
    return { level, tiles, region };
  }
}

/** Where tiles begin along a side: each `length − overlap` after the one before, until the side is covered. */
function starts(side: number, length: number, overlap: number, edge: TileRule['edge']): number[] {
  const found: number[] = [];
  let at = 0;
  for (; at + length < side; at += length - overlap) found.push(at);
  found.push(edge === 'shift' ? Math.max(0, side - length) : at);
  return found;
}

/** What a row is of its image, in words that follow the image's name: ` [512×512 at 1024,0]`; empty for a whole image. */
export function partName({
  crop,
  tile,
  clipStart,
}: {
  readonly crop?: number | null;
  readonly tile?: Tile | null;
  readonly clipStart?: number | null;
}): string {
  const shown = (value: number): string => String(Math.round(value));
  if (tile) {
    const level = tile.level === 0 ? '' : ` of level ${tile.level}`;
    return ` [${shown(tile.width)}×${shown(tile.height)} at ${shown(tile.x)},${shown(tile.y)}${level}]`;
  }
  if (typeof clipStart === 'number') return ` [from frame ${clipStart}]`;
  return typeof crop === 'number' ? ` [crop ${crop}]` : '';
}
