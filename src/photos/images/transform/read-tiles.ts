/** A picture → tiles, transformed like photos. */
import { openPicture, type Picture } from '../decode/picture.js';
import { openImageSource, type ImageSource } from '../formats/image-source.js';
import { misfitImage } from '../file/image-errors.js';
import { labelOf, type ImageFile, type StampTaker } from '../file/image-file.js';
import type { Region, Size } from '../pixels/geometry.js';
import { copyRows, toGrey, type RgbImage } from '../pixels/rgb-image.js';
import { TileGrid, type Tile } from '../pixels/tile-grid.js';
import { fillWith, type ImageRegions } from '../resample/resample.js';
import { checkOneRow } from './check-transform.js';
import type { FloatImage } from './float-image.js';
import { imageOf, type LoadedImage } from './load-pixels.js';
import type { TilePlan } from './tile-options.js';
import type { Transform } from './transform.js';

/** A tile of a picture, as a model is fed, and where it lies. */
export interface LoadedTile extends LoadedImage {
  /**
   * What it covers, in pixels of the full picture, whatever its scale; fractions are possible. `level` is the index of its scale.
   */
  readonly tile: Tile;
}

/** A tile before the transform. */
export interface CutTile {
  readonly tile: Tile;
  readonly image: RgbImage;
}

/** Consecutive tiles. */
export interface CutRun {
  /** Without those that are background. */
  readonly tiles: readonly (CutTile & { readonly index: number })[];
  /** The index of the tile after the last one that was looked at. */
  readonly next: number;
}

/** Reads the tiles of a picture. Close it. */
export class TileReader {
  readonly picture: Picture;
  readonly grid: TileGrid;
  readonly #plan: TilePlan;
  readonly #levels: readonly ImageRegions[];

  constructor(picture: Picture, plan: TilePlan) {
    this.picture = picture;
    this.grid = new TileGrid(picture, plan);
    this.#plan = plan;
    const sampling = { interpolation: plan.interpolation, resampler: 'pillow' } as const;
    this.#levels = this.grid.sizes.map((size) => picture.scaled(size, sampling));
  }

  /** Opens a picture. Throws `IMAGE_*`, `DEPENDENCY_MISSING`. */
  static async open(
    file: ImageFile,
    { options }: Transform,
    plan: TilePlan,
    taker?: StampTaker,
  ): Promise<TileReader> {
    return new TileReader(await openPicture(file, options, taker), plan);
  }

  /** Reads the tiles from an index on, a few at once. Throws `IMAGE_*`. */
  async read(first: number): Promise<CutRun> {
    const { level, tiles, region } = this.grid.run(first);
    const pixels = await this.#levels[level]!.read(region);
    const cut = tiles.map(({ index, tile, region: part }) => {
      const place = { ...part, top: part.top - region.top, left: part.left - region.left };
      return { index, tile, image: cutTile(pixels, place, this.#plan) };
    });
    const isKept = (i: number): boolean =>
      this.#plan.minStd === 0 || deviationOf(cut[i]!.image, tiles[i]!.region) >= this.#plan.minStd;
    return { tiles: cut.filter((_, i) => isKept(i)), next: first + tiles.length };
  }

  /** The first of the tiles from `first` to before `end` that is no background; undefined if all are. Throws `IMAGE_*`. */
  async find(first: number, end: number): Promise<CutTile | undefined> {
    for (let at = first; at < end;) {
      const { tiles, next } = await this.read(at);
      const [tile] = tiles;
      if (tile) return tile.index < end ? tile : undefined;
      at = next;
    }
    return undefined;
  }

  close(): Promise<void> {
    return this.picture.close();
  }
}

/** The error for a picture of which no tile is kept. */
export function allBackground(label: string): Error {
  return misfitImage('all of its tiles are background', label, 'choose a smaller minStd to have them');
}

/** Some tiles of a picture, and the picture to look at. */
export interface SampledTiles {
  readonly tiles: readonly LoadedTile[];
  readonly preview: RgbImage;
  /** Of the full picture. */
  readonly size: Size;
}

/**
 * Loads tiles from all over a picture, those of background left out, and the picture itself. Throws as `loadTiles` does;
 * `IMAGE_MISFIT` if all are background.
 *
 * @param maxSide - Pixels that a side of the picture should have; a small picture keeps its size.
 */
export async function sampleTiles(
  source: ImageSource,
  transform: Transform,
  tiles: TilePlan,
  { most, maxSide }: { readonly most: number; readonly maxSide: number },
): Promise<SampledTiles> {
  checkOneRow(transform.options, 'with tiles');
  const file = await openImageSource(source);
  const reader = await TileReader.open(file, transform, tiles);
  const { picture, grid } = reader;
  const found: LoadedTile[] = [];
  try {
    const count = Math.min(most, grid.count);
    const firstOf = (place: number): number => Math.floor((place * grid.count) / count);
    for (let place = 0; place < count; place++) {
      const tile = await reader.find(firstOf(place), firstOf(place + 1));
      if (tile) found.push(loadedTile(tile, picture, transform));
    }
    if (found.length === 0) throw allBackground(labelOf(file));
    return { tiles: found, preview: await picture.preview(maxSide), size: picture };
  } finally {
    await reader.close();
  }
}

function loadedTile({ tile, image }: CutTile, picture: Picture, transform: Transform): LoadedTile {
  const pixels = { image: transformTile(transform, image), from: picture, reduction: 1 } as const;
  return Object.assign(imageOf(pixels, transform), { tile });
}

/** A tile of its full size: a part of pixels at the top left, and around it the fill. */
function cutTile(pixels: RgbImage, { top, left, height, width }: Region, { size, fill }: TilePlan): RgbImage {
  const data = new Uint8Array(size.height * size.width * 3);
  if (height < size.height || width < size.width) fillWith(data, fill);
  const from = { data: pixels.data, offset: (top * pixels.width + left) * 3, pitch: pixels.width * 3 };
  copyRows(from, { data, offset: 0, pitch: size.width * 3 }, height, width * 3);
  return { ...size, data };
}

/** The standard deviation of the grey values of a tile's part at the top left. */
function deviationOf({ data, width: pitch }: RgbImage, { height, width }: Size): number {
  let [sum, squares] = [0, 0];
  for (let row = 0; row < height; row++) {
    const grey = data.slice(row * pitch * 3, (row * pitch + width) * 3);
    toGrey(grey);
    for (let at = 0; at < grey.length; at += 3) {
      sum += grey[at]!;
      squares += grey[at]! ** 2;
    }
  }
  const count = height * width;
  return Math.sqrt(Math.max(0, squares / count - (sum / count) ** 2));
}

/** Transforms a tile. @param into - Receives the pixels, or the planes of floats. */
export function transformTile(
  transform: Transform,
  image: RgbImage,
  into?: Uint8Array,
): RgbImage | FloatImage {
  if (!transform.isFloat) return transform.apply(image, into);
  return transform.applyFloat(image, into && new Float32Array(into.buffer, into.byteOffset, into.length / 4));
}

/** The tiles of a picture, one after the other. Throws as `loadTiles` does. */
export async function* readTiles(
  source: ImageSource,
  transform: Transform,
  plan: TilePlan,
): AsyncGenerator<LoadedTile> {
  checkOneRow(transform.options, 'with tiles');
  const reader = await TileReader.open(await openImageSource(source), transform, plan);
  const { picture, grid } = reader;
  try {
    for (let at = 0; at < grid.count;) {
      const run = await reader.read(at);
      at = run.next;
      for (const tile of run.tiles) yield loadedTile(tile, picture, transform);
    }
  } finally {
    await reader.close();
  }
}
