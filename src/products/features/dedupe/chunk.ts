/** Rows that are compared with each other from memory: their sketches, in groups of rows that lie near one of them. */
import { queryGraph } from '../../linear/row-graphs.js';
import { openRowSession, rowsTensor } from '../../linear/row-session.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { writeSketches, type Sketching } from './sketch.js';
import { sliceTile, unitRows, type Tile } from './tiles.js';

/** Rows of one group follow each other. */
export interface Chunk {
  readonly tile: Tile;
  /** The places of the rows in the tile, group by group. */
  readonly order: Int32Array;
  /** `[rows, size + 1]`: the sketches, in this order. */
  readonly sketches: Float32Array;
  readonly groups: readonly Group[];
}

/** Rows near one row. */
export interface Group {
  /** Their places in the order. */
  readonly from: number;
  readonly to: number;
  /** The sketch of that row. */
  readonly centre: Float32Array;
  /** The largest angle of a sketch with it. */
  readonly radius: number;
}

/** Rows that are multiplied at once. */
const STEP_ROWS = 8192;
/** Rows among which centres are chosen, and the most of them. */
const [CANDIDATES, MOST_GROUPS] = [4096, 2048];
/** More than the rounding error of a product of sketches in float32. */
const PRODUCT_ERROR = 1e-5;

/** By how much the cosine of two sketches may differ from their product: they are a little longer than 1. */
export function cosineError({ error }: Sketching): number {
  return 4 * error + PRODUCT_ERROR;
}

/** Sketches the rows of a tile, and groups them. */
export async function groupRows(
  tile: Tile,
  sketching: Sketching,
  place: { readonly device: Device; readonly signal: AbortSignal | undefined },
): Promise<Chunk> {
  const count = tile.rows.length;
  const width = sketching.size + 1;
  const sketches = new Float32Array(count * width);
  const elements = tile.data.length / count;
  {
    await using session = await openRowSession(queryGraph(sketching.basis, elements), place);
    for (let from = 0; from < count; from += STEP_ROWS) {
      const rows = unitRows(sliceTile(tile, from, Math.min(count, from + STEP_ROWS)));
      const { dots } = await session.run({ rows: rowsTensor(rows, elements) }, true);
      writeSketches(sketching, dots, sketches, from);
    }
  }
  const centres = chooseCentres(sketches, width, 2 * sketching.least ** 2 - 1);
  const centreOf = new Int32Array(count);
  const least = new Float32Array(centres.length / width).fill(1);
  await using session = await openRowSession(queryGraph(centres, width), place);
  for (let from = 0; from < count; from += STEP_ROWS) {
    const rows = sketches.slice(from * width, Math.min(count, from + STEP_ROWS) * width);
    const { dots } = await session.run({ rows: rowsTensor(rows, width) }, true);
    for (let i = 0; i * least.length < dots.length; i++) {
      let best = 0;
      const at = i * least.length;
      for (let c = 1; c < least.length; c++) if (dots[at + c]! > dots[at + best]!) best = c;
      centreOf[from + i] = best;
      least[best] = Math.min(least[best]!, dots[at + best]!);
    }
  }
  // The rows farthest from each centre may be a little farther.
  const farthest = least.map((product) => product - cosineError(sketching));
  return sortRows(tile, sketches, centres, centreOf, farthest);
}

/** Rows of a sample, spread over it, that are not near each other. */
function chooseCentres(sketches: Float32Array, width: number, near: number): Float32Array {
  const count = sketches.length / width;
  const most = Math.max(1, Math.min(MOST_GROUPS, Math.ceil(count / 64)));
  const candidates = Math.min(count, CANDIDATES);
  const centres = new Float32Array(most * width);
  let found = 0;
  for (let i = 0; i < candidates && found < most; i++) {
    const at = Math.floor((i * count) / candidates) * width;
    let isNear = false;
    for (let c = 0; c < found && !isNear; c++) {
      let sum = 0;
      for (let k = 0; k < width; k++) sum += sketches[at + k]! * centres[c * width + k]!;
      isNear = sum > near;
    }
    if (!isNear) centres.set(sketches.subarray(at, at + width), found++ * width);
  }
  return centres.slice(0, found * width);
}

function sortRows(
  tile: Tile,
  sketches: Float32Array,
  centres: Float32Array,
  centreOf: Int32Array,
  farthest: Float32Array,
): Chunk {
  const width = centres.length / farthest.length;
  const counts = new Int32Array(farthest.length);
  for (const centre of centreOf) counts[centre]!++;
  const groups: Group[] = [];
  const next = new Int32Array(farthest.length);
  let from = 0;
  for (const [c, count] of counts.entries()) {
    next[c] = from;
    const radius = Math.acos(Math.max(-1, Math.min(1, farthest[c]!)));
    const centre = centres.subarray(c * width, (c + 1) * width);
    if (count > 0) groups.push({ from, to: from + count, centre, radius });
    from += count;
  }
  const order = new Int32Array(centreOf.length);
  const sorted = new Float32Array(sketches.length);
  for (const [row, centre] of centreOf.entries()) {
    const place = next[centre]!++;
    order[place] = row;
    sorted.set(sketches.subarray(row * width, (row + 1) * width), place * width);
  }
  return { tile, order, sketches: sorted, groups };
}
