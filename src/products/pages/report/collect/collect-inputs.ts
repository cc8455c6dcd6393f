/** The inputs of a dataset: a sample of the images, and the failures. */
import { partName, type Tile } from '../../../../photos/images/pixels/tile-grid.js';
import { Reservoir } from '../../../../base/reservoir.js';
import { RowSet } from '../../../../base/row-set.js';
import { shown } from '../../../../base/printable.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import { inputAt, type Dataset } from '../../../../datasets/files/dataset.js';
import { nameAt, readInputGroups } from '../../../../datasets/files/input-groups.js';
import { readSavedColumns } from '../../../../datasets/files/saved-columns.js';
import { WHOLE_ROWS, type DatasetRow } from '../../../../datasets/formats/metadata-columns.js';

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

/** Reads the metadata once. Of the inputs with features, objects are made for those that the sample takes. */
export async function collectInputs(dataset: Dataset, sample: number, breathe: Breathe): Promise<Inputs> {
  const reservoir = new Reservoir<SampledImage>(sample, SEED);
  const live = new RowSet();
  const groups = new Map<string, { count: number; listed: { path: string | null; message: string }[] }>();
  let ok = 0;
  let failed = 0;
  const columns = await readSavedColumns(dataset);
  const saved = columns.names.length > 0 ? columns : undefined;
  for await (const group of readInputGroups(dataset, WHOLE_ROWS))
    for (let i = 0; i < group.length; i++) {
      await breathe();
      const status = group.statuses[i];
      if (status === 'ok') {
        const row = group.rows[i]!;
        ok++;
        live.add(row);
        reservoir.add(() => toImage(inputAt(group, i, saved), row));
      } else if (status === 'error') {
        failed++;
        const named = group.textAt('error_code', i) ?? 'without a code';
        const code = groups.has(named) || groups.size < MAX_CODES ? named : OTHER_CODES;
        let failures = groups.get(code);
        if (!failures) groups.set(code, (failures = { count: 0, listed: [] }));
        const message = group.textAt('error_message', i) ?? '';
        if (++failures.count <= MAX_LISTED) failures.listed.push({ path: nameAt(group, i), message });
      }
    }
  return {
    ok,
    failed,
    failures: [...groups]
      .map(([code, { count, listed }]) => ({ code, count, listed }))
      .toSorted((a, b) => b.count - a.count || (a.code < b.code ? -1 : 1)),
    images: reservoir.items.toSorted((a, b) => a.row - b.row),
    live,
  };
}

function toImage(input: DatasetRow, row: number): SampledImage {
  const { path, row: _row, width, height, stamp, crop, tile, clipStart, ...others } = input;
  const { status: _status, errorCode: _code, errorMessage: _message, ...columns } = others;
  const modifiedMs = stamp?.modifiedMs ?? null;
  return { path, row, width, height, modifiedMs, crop, tile, clipStart, columns };
}
