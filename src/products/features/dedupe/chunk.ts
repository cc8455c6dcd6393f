/** Rows that are compared with each other from memory: their sketches, in groups of rows that lie near one of them. */
import { queryGraph } from '../../linear/row-graphs.js';
import { openRowSession, rowsTensor } from '../../linear/row-session.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { writeSketches, type Sketching } from './sketch.js';
import { unitRows, type Tile } from './tiles.js';

/** Rows of one group follow each other. */
export interface Chunk {
  readonly tile: Tile;
  /** The places of the rows in the tile, group by group. */
  readonly order: Int32Array;
  /** `[rows, size + 1]`: the sketches, in this order. */
  readonly sketches: Float32Array;
  readonly groups: readonly Group[];
  /** `[centres, D]`, of length 1. */
  readonly centres: Float32Array;
}

/** Rows near one row. */
export interface Group {
  /** Their places in the order. */
  readonly from: number;
  readonly to: number;
  /** The place of that row among the centres. */
  readonly centre: number;
  /** The largest angle with it. */
  readonly radius: number;
}

/** Rows that are multiplied at once. */
const STEP_ROWS = 8192;
/** Rows among which centres are chosen, and the most of them. */
const [CANDIDATES, MOST_GROUPS] = [4096, 2048];
/** Rounds of choosing: each leaves few rows of clusters that its candidates missed. */
const ROUNDS = 4;

/** Where products are computed. */
interface Place {
  readonly device: Device;
  readonly signal: AbortSignal | undefined;
}

/** Sketches the rows of a tile, and groups them. */
export async function groupRows(tile: Tile, sketching: Sketching, place: Place): Promise<Chunk> {
  const count = tile.rows.length;
  const sketches = new Float32Array(count * (sketching.size + 1));
  const all = Int32Array.from({ length: count }, (_, row) => row);
  for await (const [from, dots] of multiplyRows(tile, all, sketching.basis, place))
    writeSketches(sketching, dots, sketches, from);
  return sortRows(tile, sketches, await chooseGroups(tile, all, sketching, place));
}

/** The products of rows at length 1 with others, `[rows, others]`, some rows at a time. */
async function* multiplyRows(
  tile: Tile,
  rows: Int32Array,
  others: Float32Array,
  place: Place,
): AsyncGenerator<readonly [from: number, dots: Float32Array, rows: Int32Array]> {
  const elements = tile.data.length / tile.rows.length;
  await using session = await openRowSession(queryGraph(others, elements), place);
  for (let from = 0; from < rows.length; from += STEP_ROWS) {
    const step = rows.subarray(from, from + STEP_ROWS);
    const { dots } = await session.run({ rows: rowsTensor(unitRows(tile, step), elements) }, true);
    yield [from, dots, step];
  }
}

/** The nearest centre of each row. */
interface Nearest {
  /** `[centres, D]`, of length 1. */
  readonly centres: Float32Array;
  readonly centreOf: Int32Array;
  /** The product of each row with its centre. */
  readonly products: Float32Array;
  /** A row with a smaller product is far from its centre. */
  readonly near: number;
  /** By how much a product may be too large. */
  readonly slack: number;
}

/** Chooses centres in rounds: rows that lie far from all centres of a round are looked at in the next one. */
async function chooseGroups(
  tile: Tile,
  all: Int32Array,
  { least, slack }: Sketching,
  place: Place,
): Promise<Nearest> {
  const elements = tile.data.length / all.length;
  const near = 2 * least ** 2 - 1;
  const most = Math.max(1, Math.min(MOST_GROUPS, Math.ceil(all.length / 64)));
  const centreOf = new Int32Array(all.length);
  const products = new Float32Array(all.length).fill(-Infinity);
  const found: number[] = [];
  let far = all;
  for (let round = 0; round < ROUNDS && found.length < most && far.length > 0; round++) {
    const more = await chooseCentres(tile, far, near, most - found.length, place);
    for await (const [, dots, rows] of multiplyRows(tile, far, unitRows(tile, more), place))
      takeNearest(dots, rows, found.length, centreOf, products);
    found.push(...more);
    far = far.filter((row) => products[row]! < near);
  }
  const centres = unitRows(tile, Int32Array.from(found));
  return { centres: centres.subarray(0, found.length * elements), centreOf, products, near, slack };
}

/** Keeps the largest of the products `[rows, centres]` of each row. */
function takeNearest(
  dots: Float32Array,
  rows: Int32Array,
  firstCentre: number,
  centreOf: Int32Array,
  products: Float32Array,
): void {
  const centres = dots.length / rows.length;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!;
    let best = centreOf[row]!;
    let most = products[row]!;
    for (let c = 0; c < centres; c++) {
      const product = dots[i * centres + c]!;
      if (product > most) [best, most] = [firstCentre + c, product];
    }
    centreOf[row] = best;
    products[row] = most;
  }
}

/** Some of the rows, spread over them, that are not near each other. */
async function chooseCentres(
  tile: Tile,
  rows: Int32Array,
  near: number,
  most: number,
  place: Place,
): Promise<Int32Array> {
  const count = Math.min(rows.length, CANDIDATES);
  const candidates = Int32Array.from(
    { length: count },
    (_, i) => rows[Math.floor((i * rows.length) / count)]!,
  );
  const found: number[] = [];
  for await (const [from, dots, step] of multiplyRows(tile, candidates, unitRows(tile, candidates), place))
    for (let i = 0; i < step.length && found.length < most; i++)
      if (!found.some((other) => dots[i * count + other]! > near)) found.push(from + i);
  return Int32Array.from(found, (i) => candidates[i]!);
}

/** Sorts the rows by their centres. Those far from it are a group of their own, which does not widen that of the near ones. */
function sortRows(
  tile: Tile,
  sketches: Float32Array,
  { centres, centreOf, products, near, slack }: Nearest,
): Chunk {
  const width = sketches.length / centreOf.length;
  const groupOf = centreOf.map((centre, row) => 2 * centre + (products[row]! < near ? 1 : 0));
  const elements = tile.data.length / centreOf.length;
  const counts = new Int32Array((2 * centres.length) / elements);
  const least = new Float32Array(counts.length).fill(1);
  for (const [row, group] of groupOf.entries()) {
    counts[group]!++;
    least[group] = Math.min(least[group]!, products[row]!);
  }
  const groups: Group[] = [];
  const next = new Int32Array(counts.length);
  let from = 0;
  for (const [g, count] of counts.entries()) {
    next[g] = from;
    // The farthest row may be a little farther.
    const radius = Math.acos(Math.max(-1, Math.min(1, least[g]! - slack)));
    if (count > 0) groups.push({ from, to: from + count, centre: g >> 1, radius });
    from += count;
  }
  const order = new Int32Array(centreOf.length);
  const sorted = new Float32Array(sketches.length);
  for (const [row, group] of groupOf.entries()) {
    const place = next[group]!++;
    order[place] = row;
    sorted.set(sketches.subarray(row * width, (row + 1) * width), place * width);
  }
  return { tile, order, sketches: sorted, groups, centres };
}
