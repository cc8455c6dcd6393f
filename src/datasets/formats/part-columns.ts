/** The columns of what a row covers of its photo: the coordinates of a tile, the number of a crop, or the first frame of a clip. */
import type { RowPart } from '../../photos/feeds/tried-input.js';

const PART_COLUMNS = {
  tile: {
    tile_level: 'INT32',
    tile_x: 'DOUBLE',
    tile_y: 'DOUBLE',
    tile_width: 'DOUBLE',
    tile_height: 'DOUBLE',
  },
  crop: { crop: 'INT32' },
  clip: { clip_start: 'INT32' },
} as const;

/** What rows are parts of: of whole images if undefined. */
export type PartKind = keyof typeof PART_COLUMNS;

/** A column with its type in Parquet. */
export type PartColumn = readonly [name: string, type: 'INT32' | 'DOUBLE'];

/** The columns of rows that are such parts; whole images have none of them. */
export function partColumns(parts: PartKind | undefined): readonly PartColumn[] {
  return parts ? Object.entries(PART_COLUMNS[parts]) : [];
}

/** The types of all such columns, by name. */
export const PART_TYPES: ReadonlyMap<string, PartColumn[1]> = new Map(
  Object.values(PART_COLUMNS).flatMap((columns): PartColumn[] => Object.entries(columns)),
);
/** Their names. */
export const PART_NAMES: readonly string[] = [...PART_TYPES.keys()];

/** The values of a row, by column. */
export function partValues({ crop, tile, clipStart }: RowPart): Readonly<Record<string, number | null>> {
  return {
    crop,
    tile_level: tile?.level ?? null,
    tile_x: tile?.x ?? null,
    tile_y: tile?.y ?? null,
    tile_width: tile?.width ?? null,
    tile_height: tile?.height ?? null,
    clip_start: clipStart,
  };
}
