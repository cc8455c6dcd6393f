/** Groups of rows as users see them: their inputs, the best copy, and how near the others are to it. */
import type { Dataset } from '../../../datasets/files/dataset.js';
import { nameAt, readInputGroups } from '../../../datasets/files/input-groups.js';
import type { Tile } from '../../../photos/images/pixels/tile-grid.js';
import { cosineOf, readTiles, sliceTile, type Tile as RowTile, type TileRequest } from './tiles.js';

/** An input of the dataset. */
export interface DuplicateImage {
  /** Row in the features, counted over all shards. */
  readonly row: number;
  /** Path as the dataset records it; null for an input given as bytes. */
  readonly path: string | null;
  /** In pixels; null if unknown. */
  readonly width: number | null;
  readonly height: number | null;
  /** Size of the file; null if unknown. */
  readonly sizeBytes: number | null;
  /** In a dataset of crops: the number of the crop. */
  readonly crop?: number;
  /** In a dataset of tiles: what the tile covers of its picture. */
  readonly tile?: Tile;
  /** In a dataset of clips: the first frame of the clip. */
  readonly clipStart?: number;
}

/** A copy and its nearness to the best one. */
export interface DuplicateCopy extends DuplicateImage {
  /** Cosine with the best copy, in double precision. It may lie below the threshold: a copy may be joined through another one. */
  readonly cosine: number;
}

/** Images that are near-duplicates of each other. */
export interface DuplicateGroup {
  /** The copy with the most pixels; among equals the one with the larger file, then the first. */
  readonly best: DuplicateImage;
  /** The others, by row. Other parts of the best one's own photo are no copies. */
  readonly copies: readonly DuplicateCopy[];
}

/** Bytes of the best copies' features that are in memory at once. */
const BEST_BYTES = 32 * 2 ** 20;

/** Describes groups of rows, in their order. */
export async function describeGroups(
  dataset: Dataset,
  tiles: TileRequest,
  groups: readonly (readonly number[])[],
): Promise<DuplicateGroup[]> {
  const images = await readImages(dataset, new Set(groups.flat()));
  const bests = groups.map((rows) => rows.map((row) => images.get(row)!).reduce(betterOf));
  const bestRow = new Map(groups.flatMap((rows, i) => rows.map((row) => [row, bests[i]!.row] as const)));
  const cosines = await readCosines(dataset, tiles, bestRow);
  return groups.map((rows, i) => ({
    best: bests[i]!,
    copies: rows
      .filter((row) => row !== bests[i]!.row && !isPartOf(bests[i]!, images.get(row)!))
      .map((row) => Object.assign({}, images.get(row)!, { cosine: cosines.get(row)! })),
  }));
}

const IMAGE_COLUMNS = ['path', 'width', 'height', 'size_bytes', 'modified', 'sha256'] as const;

async function readImages(
  dataset: Dataset,
  wanted: ReadonlySet<number>,
): Promise<ReadonlyMap<number, DuplicateImage>> {
  const images = new Map<number, DuplicateImage>();
  for await (const group of readInputGroups(dataset, { own: IMAGE_COLUMNS, among: wanted }))
    for (const [i, row] of group.rows.entries()) {
      if (!wanted.has(row)) continue;
      const { crop, tile, clipStart } = group.partAt(i);
      images.set(row, {
        row,
        path: nameAt(group, i),
        ...group.sizeAt(i),
        sizeBytes: group.stampAt(i)?.sizeBytes ?? null,
        ...(crop === null ? {} : { crop }),
        ...(tile === null ? {} : { tile }),
        ...(clipStart === null ? {} : { clipStart }),
      });
    }
  return images;
}

/** Whether two rows are parts of one photo, which a third one joined. */
function isPartOf(one: DuplicateImage, other: DuplicateImage): boolean {
  return one.path !== null && one.path === other.path;
}

function betterOf(a: DuplicateImage, b: DuplicateImage): DuplicateImage {
  const pixels = pixelsOf(b) - pixelsOf(a);
  const bytes = (b.sizeBytes ?? 0) - (a.sizeBytes ?? 0);
  return (pixels || bytes || a.row - b.row) > 0 ? b : a;
}

function pixelsOf({ width, height }: DuplicateImage): number {
  return (width ?? 0) * (height ?? 0);
}

/**
 * The cosine of each row with the best one of its group. It holds the best rows of some groups at a time, and reads the dataset twice
 * for each such part.
 */
async function readCosines(
  dataset: Dataset,
  tiles: TileRequest,
  bestRow: ReadonlyMap<number, number>,
): Promise<ReadonlyMap<number, number>> {
  const cosines = new Map<number, number>();
  const bests = [...new Set(bestRow.values())];
  const partRows = Math.max(1, Math.floor(BEST_BYTES / (4 * tiles.elements)));
  for (let at = 0; at < bests.length; at += partRows) {
    const vectors = await readRows(dataset, tiles, new Set(bests.slice(at, at + partRows)));
    for await (const tile of readTiles(dataset, tiles)) {
      for (const [i, row] of tile.rows.entries()) {
        const best = vectors.get(bestRow.get(row) ?? -1);
        if (best) cosines.set(row, cosineOf(best, 0, tile, i));
      }
    }
  }
  return cosines;
}

/** Some rows, each as a tile. */
async function readRows(
  dataset: Dataset,
  request: TileRequest,
  wanted: ReadonlySet<number>,
): Promise<ReadonlyMap<number, RowTile>> {
  const found = new Map<number, RowTile>();
  for await (const tile of readTiles(dataset, request)) {
    for (const [i, row] of tile.rows.entries()) {
      if (wanted.has(row)) found.set(row, sliceTile(tile, i, i + 1));
    }
  }
  return found;
}
