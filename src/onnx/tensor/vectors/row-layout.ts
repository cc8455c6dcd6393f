/** How the report reads the rows of an output as vectors. */

/** The meaning of a row's axes. */
export interface RowLayout {
  readonly dims: readonly number[];
  readonly channels: number;
  /** Elements from one channel to the next. */
  readonly channelStride: number;
  /** Numbers per channel in a row. */
  readonly positions: number;
  /** Elements from one position to the next. */
  readonly positionStride: number;
  /** The axes that the map's vectors are averaged over; null if a row already is a vector. */
  readonly averaged: 'space' | 'tokens' | null;
}

/** Lays out a row: a vector `[C]` is used unchanged, a map `[C, H, W]` is averaged over space, tokens `[L, C]` over the tokens. */
export function layOutRow(dims: readonly number[]): RowLayout {
  const elements = dims.reduce((product, size) => product * size, 1);
  if (dims.length === 2) {
    const [positions = 0, channels = 0] = dims;
    return { dims, channels, channelStride: 1, positions, positionStride: channels, averaged: 'tokens' };
  }
  const channels = dims[0] ?? 1;
  const positions = channels === 0 ? 0 : elements / channels;
  const averaged = dims.length > 2 ? 'space' : null;
  return { dims, channels, channelStride: positions, positions, positionStride: 1, averaged };
}

/** Writes the mean of each channel of a row to `into`, from `offset` on. */
export function poolRow(
  data: Float32Array,
  start: number,
  { channels, channelStride, positions, positionStride }: RowLayout,
  into: Float32Array,
  offset: number,
): void {
  for (let channel = 0; channel < channels; channel++) {
    const first = start + channel * channelStride;
    let sum = 0;
    for (let position = 0; position < positions; position++) sum += data[first + position * positionStride]!;
    into[offset + channel] = sum / positions;
  }
}
