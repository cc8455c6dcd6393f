/** Compares all rows of a dataset with each other. Pairs that a bound rules out are not computed; the others are decided in double precision. */
import { mapInOrder } from '../../../base/map-in-order.js';
import type { RowGroups } from '../../../onnx/tensor/vectors/row-groups.js';
import { openRowSession, rowsTensor, type RowSession } from '../../linear/row-session.js';
import { pairGraph, queryGraph, type PairProducts } from '../../linear/row-graphs.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import { groupRows, type Chunk } from './chunk.js';
import { chooseSketching, type Sketching } from './sketch.js';
import { cosineOf, readTiles, type SkippedRows, type Tile, type TileRequest } from './tiles.js';

/** A comparison of all rows. */
export interface Comparison {
  /** A tile is a chunk: two of them are in memory. */
  readonly tiles: TileRequest;
  readonly cosine: number;
  readonly groups: RowGroups;
  /** The input of each row, whose parts are no copies of each other; undefined where each row is an input. */
  readonly inputOf: Int32Array | undefined;
  readonly skipped: SkippedRows;
  readonly device: Device;
  /** Called with the rows that have been compared with all others. */
  readonly onRows: (rows: number) => void;
  readonly signal: AbortSignal | undefined;
}

/** What a comparison did. */
export interface Compared {
  readonly rows: number;
  /** Pairs of rows whose sketches were multiplied: no bound of their groups ruled them out. */
  readonly multiplied: number;
  /** Pairs whose cosine was computed. */
  readonly decided: number;
}

/** Rows of the left side, and at most so many of the right side, that are multiplied at once. */
const [LEFT_ROWS, RIGHT_ROWS] = [512, 2048];

/** Joins the rows whose cosine is at least the threshold. */
export async function compareRows(dataset: Dataset, comparison: Comparison): Promise<Compared> {
  let sketching: Sketching | undefined;
  let session: RowSession<PairProducts> | undefined;
  const done = { rows: 0, multiplied: 0, decided: 0 };
  try {
    for await (const [left, tile] of pairTiles(dataset, comparison)) {
      const { device, signal } = comparison;
      // The products in float32 of a GPU may be rounded to TF32: then its sketches bound less.
      sketching ??= chooseSketching(tile, comparison.cosine, device === 'cpu');
      session ??= await openRowSession(pairGraph(sketching.size + 1), { device, signal });
      const chunkOf = (one: Tile): Promise<Chunk> => groupRows(one, sketching!, { device, signal });
      const before = left.tile === tile ? undefined : left.chunk;
      const chunk = await chunkOf(tile);
      if (!before) {
        left.chunk = chunk;
        done.rows += tile.rows.length;
      }
      await compareChunks(comparison, session, sketching, before ?? chunk, chunk, done);
    }
  } finally {
    await session?.[Symbol.asyncDispose]();
  }
  return done;
}

/** A tile that others are compared with. */
interface Left {
  readonly tile: Tile;
  chunk?: Chunk;
}

/** All pairs of tiles, each with itself first. A tile stays in memory while those after it are read. */
async function* pairTiles(
  dataset: Dataset,
  { tiles, skipped, onRows }: Comparison,
): AsyncGenerator<readonly [Left, Tile]> {
  let rest = true;
  let compared = 0;
  for (let first = 0; rest; first++) {
    let left: Left | undefined;
    rest = false;
    let position = 0;
    for await (const tile of readTiles(dataset, tiles, first === 0 ? skipped : undefined)) {
      if (position++ < first) continue;
      rest = left !== undefined;
      left ??= { tile };
      yield [left, tile];
    }
    onRows((compared += left?.tile.rows.length ?? 0));
  }
}

/** Places on both sides that are multiplied at once. */
interface Block {
  readonly from: number;
  readonly left: Float32Array;
  /** Places in the order of the right side. */
  readonly places: Int32Array;
  readonly right: Float32Array;
}

async function compareChunks(
  comparison: Comparison,
  session: RowSession<PairProducts>,
  sketching: Sketching,
  left: Chunk,
  right: Chunk,
  done: { multiplied: number; decided: number },
): Promise<void> {
  const width = sketching.size + 1;
  const feedsOf = (rows: Float32Array, block: Block) => ({
    left: rowsTensor(rows, width),
    right: rowsTensor(block.right, width),
  });
  const multiply = async (block: Block): Promise<[Block, number[], Float32Array]> => {
    comparison.signal?.throwIfAborted();
    const { most } = await session.runFor(['most'], feedsOf(block.left, block));
    const near: number[] = [];
    for (const [i, value] of most.entries()) if (value >= sketching.least) near.push(i);
    if (near.length === 0) return [block, near, new Float32Array(0)];
    const rows = new Float32Array(near.length * width);
    for (const [at, i] of near.entries())
      rows.set(block.left.subarray(i * width, (i + 1) * width), at * width);
    return [block, near, (await session.runFor(['dots'], feedsOf(rows, block))).dots];
  };
  const blocks = blocksOf(left, right, await nearGroups(left, right, sketching, comparison));
  for await (const [block, near, dots] of mapInOrder(blocks, 2, multiply)) {
    const count = block.places.length;
    done.multiplied += (block.left.length / width) * count;
    for (const [at, i] of near.entries()) {
      const a = left.order[block.from + i]!;
      for (let j = 0; j < count; j++) {
        if (dots[at * count + j]! < sketching.least) continue;
        // Each pair of one chunk once.
        if (left === right && block.places[j]! <= block.from + i) continue;
        if (decide(comparison, left.tile, a, right.tile, right.order[block.places[j]!]!)) done.decided++;
      }
    }
  }
}

/** Joins two rows whose cosine, in double precision, is at least the threshold. Returns whether it was computed. */
function decide(
  { cosine, groups, inputOf }: Comparison,
  left: Tile,
  i: number,
  right: Tile,
  j: number,
): boolean {
  const a = left.rows[i]!;
  const b = right.rows[j]!;
  if (groups.find(a) === groups.find(b) || (inputOf && inputOf[a] === inputOf[b])) return false;
  if (cosineOf(left, i, right, j) >= cosine) groups.join(a, b);
  return true;
}

/** The rows of both sides, without those whose groups lie too far apart: angles on a sphere obey the triangle inequality. */
function* blocksOf(left: Chunk, right: Chunk, near: readonly Uint8Array[]): Generator<Block> {
  const width = left.sketches.length / left.order.length;
  for (let from = 0; from < left.order.length; from += LEFT_ROWS) {
    const to = Math.min(left.order.length, from + LEFT_ROWS);
    const own = left.groups.flatMap((group, i) => (group.from < to && group.to > from ? [near[i]!] : []));
    const wanted = right.groups.filter((_, g) => own.some((one) => one[g] === 1));
    const rows = left.sketches.slice(from * width, to * width);
    // The rest of a chunk that is compared with itself was on the left before.
    const ranges = wanted.map(
      (group) => [left === right ? Math.max(from, group.from) : group.from, group.to] as const,
    );
    for (const { places, sketches } of gather(right.sketches, width, ranges))
      yield { from, left: rows, places, right: sketches };
  }
}

/** Copies ranges of rows into blocks of {@link RIGHT_ROWS}. */
function* gather(
  sketches: Float32Array,
  width: number,
  ranges: readonly (readonly [from: number, to: number])[],
): Generator<{ readonly places: Int32Array; readonly sketches: Float32Array }> {
  let left = ranges.reduce((sum, [from, to]) => sum + Math.max(0, to - from), 0);
  let filled = 0;
  let block = { places: new Int32Array(0), sketches: new Float32Array(0) };
  for (const [start, to] of ranges)
    for (let from = start; from < to;) {
      if (filled === 0) {
        const rows = Math.min(RIGHT_ROWS, left);
        block = { places: new Int32Array(rows), sketches: new Float32Array(rows * width) };
      }
      const taken = Math.min(to - from, block.places.length - filled);
      block.sketches.set(sketches.subarray(from * width, (from + taken) * width), filled * width);
      for (let i = 0; i < taken; i++) block.places[filled + i] = from + i;
      from += taken;
      filled += taken;
      left -= taken;
      if (filled < block.places.length) continue;
      yield block;
      filled = 0;
    }
}

/** For each group of the left side those of the right side that may have a row within an angle of one of its rows. */
async function nearGroups(
  left: Chunk,
  right: Chunk,
  { least, slack }: Sketching,
  place: { readonly device: Device; readonly signal: AbortSignal | undefined },
): Promise<Uint8Array[]> {
  const elements = left.tile.data.length / left.order.length;
  await using session = await openRowSession(queryGraph(right.centres, elements), place);
  const { dots } = await session.run({ rows: rowsTensor(left.centres, elements) });
  const count = right.centres.length / elements;
  const between = Float32Array.from(dots, (product) => angleOf(product + slack));
  const angle = angleOf(least);
  return left.groups.map((one) =>
    Uint8Array.from(right.groups, (other) =>
      between[one.centre * count + other.centre]! - one.radius - other.radius > angle + ANGLE_ERROR ? 0 : 1,
    ),
  );
}

/** More than the rounding error of an angle in float32. */
const ANGLE_ERROR = 1e-6;

function angleOf(cosine: number): number {
  return Math.acos(Math.max(-1, Math.min(1, cosine)));
}
