/** Where each element of a value lies in the photo: a value's axes, and the places that moves, cuts and poolings of them give. */

/** A value whose elements have places. */
export interface Placed {
  readonly dims: readonly number[];
  /** The axis of the channels, which share their places. */
  readonly channel: number;
  /** For each element of the other axes, row by row: its centre in the photo, from 0 to 1; NaN for a token that is no part of it. */
  readonly rows: Float64Array;
  readonly columns: Float64Array;
}

/** Where the patches of a photo are among tokens `[N, L, C]`. */
export interface TokenPlaces {
  /** Rows and columns of patches. */
  readonly size: readonly [rows: number, columns: number];
  /** All tokens, those of no place included. */
  readonly count: number;
  /** The token of each patch, row by row. */
  readonly tokens: readonly number[];
}

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** A map `[N, C, H, W]`, or `[N, H, W, C]` with the channels last: its places in rows and columns. */
export function placeMap(dims: readonly number[], channel: number): Placed {
  const [height, width] = dims.filter((_, axis) => axis > 0 && axis !== channel) as [number, number];
  const count = dims[0]! * height * width;
  return {
    dims,
    channel,
    rows: Float64Array.from({ length: count }, (_, i) => ((Math.floor(i / width) % height) + 0.5) / height),
    columns: Float64Array.from({ length: count }, (_, i) => ((i % width) + 0.5) / width),
  };
}

/** Whether two values have the same elements at the same places. */
export function isAligned(a: Placed, b: Placed): boolean {
  if (a.rows === b.rows) return true;
  const isSame = (one: number, i: number, other: Float64Array): boolean =>
    Object.is(one, other[i]) || Math.abs(one - other[i]!) < CLOSE;
  return (
    a.rows.length === b.rows.length &&
    a.rows.every((row, i) => isSame(row, i, b.rows)) &&
    a.columns.every((column, i) => isSame(column, i, b.columns))
  );
}

/** Places are compared to this part of the photo. */
const CLOSE = 1e-6;

/**
 * The same elements with other dims; undefined if that cuts through the channels. Pixels that become channels, as those of a patch do, lie
 * in their middle.
 */
export function reshapePlaces(from: Placed, dims: readonly number[]): Placed | undefined {
  if (product(dims) !== product(from.dims)) return undefined;
  for (let first = from.channel; first >= 0; first--)
    for (let last = from.channel; last < from.dims.length; last++) {
      const before = product(from.dims.slice(0, first));
      const size = product(from.dims.slice(first, last + 1));
      const channel = dims.findIndex((one, axis) => one === size && product(dims.slice(0, axis)) === before);
      if (channel < 0) continue;
      const merged = [...from.dims.keys()].filter(
        (axis) => axis >= first && axis <= last && axis !== from.channel,
      );
      return { ...poolPlaces(from, merged), dims, channel };
    }
  return undefined;
}

/**
 * Elements from elsewhere.
 *
 * @param sourceOf - The index along each axis of `from`, for the indices of an element of the result.
 */
export function movePlaces(
  from: Placed,
  dims: readonly number[],
  channel: number,
  sourceOf: (index: readonly number[]) => readonly number[],
): Placed {
  const sizes = dims.with(channel, 1);
  const strides = stridesOf(from.dims.with(from.channel, 1));
  const count = product(sizes);
  const sources = Array.from({ length: count }, (_, i) => {
    const at = sourceOf(indexOf(i, sizes)).map((index, axis) => (axis === from.channel ? 0 : index));
    return at.reduce((sum, index, axis) => sum + index * strides[axis]!, 0);
  });
  const take = (places: Float64Array): Float64Array => Float64Array.from(sources, (i) => places[i] ?? NaN);
  return { dims, channel, rows: take(from.rows), columns: take(from.columns) };
}

/** Elements that become one, along some axes: it lies in their middle, or nowhere if it is made of the whole photo. The axes stay, of size 1. */
export function poolPlaces(from: Placed, axes: readonly number[]): Placed {
  if (axes.every((axis) => from.dims[axis] === 1)) return from;
  const dims = from.dims.map((size, axis) => (axes.includes(axis) ? 1 : size));
  const sizes = from.dims.with(from.channel, 1);
  const strides = stridesOf(dims.with(from.channel, 1));
  const count = product(dims.with(from.channel, 1));
  const average = (places: Float64Array): Float64Array => {
    const sums = new Float64Array(count);
    for (const [i, place] of places.entries()) {
      const index = indexOf(i, sizes);
      const to = index.reduce((sum, at, axis) => sum + (axes.includes(axis) ? 0 : at * strides[axis]!), 0);
      sums[to]! += (place * count) / places.length;
    }
    return count === dims[0] ? sums.fill(NaN) : sums;
  };
  return { ...from, dims, rows: average(from.rows), columns: average(from.columns) };
}

/** Values side by side along an axis. Along the channels, an element lies in the middle of its parts. */
export function joinPlaces(parts: readonly Placed[], axis: number): Placed {
  const [first] = parts as [Placed, ...Placed[]];
  const size = parts.reduce((sum, { dims }) => sum + dims[axis]!, 0);
  const dims = first.dims.with(axis, size);
  if (axis === first.channel) {
    const average = (of: (part: Placed) => Float64Array): Float64Array =>
      of(first).map((_, i) => parts.reduce((sum, part) => sum + of(part)[i]! / parts.length, 0));
    return { ...first, dims, rows: average(({ rows }) => rows), columns: average(({ columns }) => columns) };
  }
  const outer = product(first.dims.slice(0, axis).map((one, i) => (i === first.channel ? 1 : one)));
  const join = (of: (part: Placed) => Float64Array): Float64Array => {
    const joined: number[] = [];
    for (let i = 0; i < outer; i++)
      for (const part of parts) {
        const length = of(part).length / outer;
        for (const place of of(part).subarray(i * length, (i + 1) * length)) joined.push(place);
      }
    return Float64Array.from(joined);
  };
  return { ...first, dims, rows: join(({ rows }) => rows), columns: join(({ columns }) => columns) };
}

/** Whether the elements of each photo stand row by row. */
export function isInOrder({ dims, rows, columns }: Placed): boolean {
  const photo = rows.length / dims[0]!;
  let last: number | undefined;
  return rows.every((row, i) => {
    if (Number.isNaN(row)) return true;
    const isNext = last === undefined || i % photo === 0 || compareAt(rows, columns, last, i) <= 0;
    last = i;
    return isNext;
  });
}

/** The patches of tokens `[N, L, C]`; undefined for another form, and where their places are no grid. */
export function findTokenPlaces({ dims, channel, rows, columns }: Placed): TokenPlaces | undefined {
  if (dims.length !== 3 || channel !== 2) return undefined;
  const tokens = Array.from({ length: dims[1]! }, (_, i) => i)
    .filter((i) => !Number.isNaN(rows[i]))
    .toSorted((a, b) => compareAt(rows, columns, a, b));
  const found = tokens.findIndex((token) => rows[token]! - rows[tokens[0]!]! > CLOSE);
  const width = found < 0 ? tokens.length : found;
  const height = tokens.length / width;
  // Places that were cut away or pooled from afar leave gaps.
  const isGrid = tokens.every((token, i) => {
    const [row, column] = [(Math.floor(i / width) + 0.5) / height, ((i % width) + 0.5) / width];
    return Math.abs(rows[token]! - row) < CLOSE && Math.abs(columns[token]! - column) < CLOSE;
  });
  return tokens.length > 0 && isGrid ? { size: [height, width], count: dims[1]!, tokens } : undefined;
}

/** Compares two places by their rows, then by their columns. */
function compareAt(rows: Float64Array, columns: Float64Array, a: number, b: number): number {
  const down = rows[a]! - rows[b]!;
  if (Math.abs(down) > CLOSE) return down;
  const across = columns[a]! - columns[b]!;
  return Math.abs(across) > CLOSE ? across : 0;
}

function stridesOf(sizes: readonly number[]): number[] {
  return sizes.map((_, axis) => product(sizes.slice(axis + 1)));
}

function indexOf(i: number, sizes: readonly number[]): number[] {
  const index: number[] = [];
  let rest = i;
  for (const size of sizes.toReversed()) {
    index.unshift(rest % size);
    rest = Math.floor(rest / size);
  }
  return index;
}
