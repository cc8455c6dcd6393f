/** The inputs of a dataset: a sample of the images, and the failures. */
import { partName, type Tile } from '../../../../photos/images/pixels/tile-grid.js';
import { Reservoir } from '../../../../base/reservoir.js';
import { RowSet } from '../../../../base/row-set.js';
import { shown } from '../../../../base/printable.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import type { Dataset } from '../../../../datasets/files/dataset.js';
import type { DatasetRow } from '../../../../datasets/formats/metadata.js';

/** An image with features. */
export interface SampledImage {
  readonly path: string | null;
  /** Its row in the features. */
  readonly row: number;
  readonly width: number | null;
  readonly height: number | null;
  /** When its file was last changed, in milliseconds since 1970; null if unknown. */
  readonly modifiedMs: number | null;
  /** The number of its crop, if each has a row. */
  readonly crop: number | null;
  /** What its tile covers of it, if rows are tiles. */
  readonly tile: Tile | null;
  /** Where its clip begins, if rows are clips. */
  readonly clipStart: number | null;
  /** What the list, or somebody on a page, says about it, by column. */
  readonly columns: Readonly<Record<string, unknown>>;
}

/** The name of an image on the page. */
export function nameOf(
  image: Pick<SampledImage, 'path' | 'row'> & Partial<Pick<SampledImage, 'crop' | 'tile' | 'clipStart'>>,
): string {
  const { path, row } = image;
  return (path === null ? `(row ${row}, given as bytes)` : shown(path)) + partName(image);
}

/** What the rows of a dataset are. */
export function nounOf([first]: readonly SampledImage[]): 'images' | 'tiles' | 'crops' | 'clips' {
  if (first?.tile) return 'tiles';
  if (typeof first?.crop === 'number') return 'crops';
  return typeof first?.clipStart === 'number' ? 'clips' : 'images';
}

/** The failures with one code. */
export interface FailureGroup {
  readonly code: string;
  readonly count: number;
  /** The first of them, in the order of the metadata. */
  readonly listed: readonly { readonly path: string | null; readonly message: string }[];
}

/** A summary of the inputs. Apart from one bit per row, its size does not grow with the dataset. */
export interface Inputs {
  readonly ok: number;
  readonly failed: number;
  /** Most frequent code first. */
  readonly failures: readonly FailureGroup[];
  /** In the order of rows. */
  readonly images: readonly SampledImage[];
  /** Rows that belong to an input. Other rows are outdated. */
  readonly live: RowSet;
}

const SEED = 0;
/** Failures listed for each code. */
const MAX_LISTED = 400;
/** Codes that are counted separately; a damaged dataset could hold a new code in every row. */
const MAX_CODES = 40;
const OTHER_CODES = 'other codes';

/** Reads the metadata once. */
export async function collectInputs(dataset: Dataset, sample: number, breathe: Breathe): Promise<Inputs> {
  const reservoir = new Reservoir<DatasetRow & { readonly row: number }>(sample, SEED);
  const live = new RowSet();
  const groups = new Map<string, { count: number; listed: { path: string | null; message: string }[] }>();
  let ok = 0;
  let failed = 0;
  for await (const input of dataset.rows()) {
    const { path, row, errorCode, errorMessage } = input;
    await breathe();
    if (row !== null) {
      ok++;
      live.add(row);
      reservoir.add({ ...input, row });
      continue;
    }
    failed++;
    const named = errorCode ?? 'without a code';
    const code = groups.has(named) || groups.size < MAX_CODES ? named : OTHER_CODES;
    let group = groups.get(code);
    if (!group) groups.set(code, (group = { count: 0, listed: [] }));
    if (++group.count <= MAX_LISTED) group.listed.push({ path, message: errorMessage ?? '' });
  }
  return {
    ok,
    failed,
    failures: [...groups]
      .map(([code, { count, listed }]) => ({ code, count, listed }))
      .toSorted((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1)),
    images: reservoir.items.toSorted((a, b) => a.row - b.row).map(toImage),
    live,
  };
}

function toImage(input: DatasetRow & { readonly row: number }): SampledImage {
  const { path, row, width, height, stamp, crop, tile, clipStart, ...others } = input;
  const { status: _status, errorCode: _code, errorMessage: _message, ...columns } = others;
  const modifiedMs = stamp?.modifiedMs ?? null;
  return { path, row, width, height, modifiedMs, crop, tile, clipStart, columns };
}
