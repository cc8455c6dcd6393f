/** One output of a dataset: statistics of all its rows, and the vectors of the sampled ones. */
import { digestOf } from '../../../../base/digest.js';
import { invalidOption } from '../../../../base/checks.js';
import type { Tell } from '../../../../base/progress.js';
import { layOutRow, poolRow, type RowLayout } from '../../../../onnx/tensor/vectors/row-layout.js';
import type { Breathe } from '../../../../onnx/tensor/vectors/breathe.js';
import type { Matrix } from '../../../../onnx/tensor/vectors/cosine.js';
import type { Dataset } from '../../../../datasets/files/dataset.js';
import type { Inputs } from './collect-inputs.js';
import { spread } from './spread.js';
import { StatisticsCollector, type OutputStatistics } from './statistics.js';

/** An output, read once. */
export interface CollectedOutput {
  readonly key: string;
  readonly layout: RowLayout;
  readonly statistics: OutputStatistics;
  /** For each row of `vectors`, the place of its image in `inputs.images`. */
  readonly members: readonly number[];
  readonly vectors: Matrix;
  /** Rows with the same number have the same features, bit for bit. */
  readonly sameAs: Uint16Array;
  /** The length of each of the vectors. */
  readonly lengths: readonly number[];
  /** Rows of maps or tokens whose places are drawn, and the places of their images in `inputs.images`. */
  readonly drawn: readonly { readonly place: number; readonly data: Float32Array }[];
  /** Sampled images without a vector, because some of their features are not finite. */
  readonly notFinite: number;
}

/** Images that are compared with each other: time and memory grow with their square. */
const MOST_COMPARED = 3000;
/** Memory for the map's vectors; the more channels, the fewer vectors fit. */
const MAX_SAMPLE_BYTES = 128 * 2 ** 20;
/** Rows whose places are drawn. */
const MOST_DRAWN = 12;
/** With more channels, statistics per channel would take too much memory. */
const MAX_CHANNELS = 2 ** 22;

/** Reads an output once. Throws `OPTION_INVALID` if it has too many channels to examine. */
export async function collectOutput(
  dataset: Dataset,
  key: string,
  { images, live }: Inputs,
  breathe: Breathe,
  tell: Tell = () => undefined,
): Promise<CollectedOutput> {
  const layout = layOutRow(dataset.manifest.features[key]!.dims);
  const { channels } = layout;
  if (channels > MAX_CHANNELS)
    throw invalidOption('output', `an output of at most ${MAX_CHANNELS} channels`, `${key}: ${channels}`);
  const places = takePlaces(images.length, channels);
  const placeOf = new Map(places.map((place) => [images[place]!.row, place]));
  const vectors = new Float32Array(places.length * channels);
  const collector = new StatisticsCollector(layout);
  const members: number[] = [];
  const classes = new Map<string, number>();
  const sameAs: number[] = [];
  const isDrawn = new Set(layout.averaged === null ? [] : spread(places, MOST_DRAWN));
  const drawn: { place: number; data: Float32Array }[] = [];
  let taken = 0;
  for await (const { firstRow, rows, data } of dataset.blocks(key)) {
    tell(firstRow);
    const rowLength = data.length / rows;
    for (let row = 0; row < rows; row++) {
      await breathe();
      if (!live.has(firstRow + row)) continue;
      const start = row * rowLength;
      const isFinite = collector.add(data, start);
      const place = placeOf.get(firstRow + row);
      if (place === undefined) continue;
      taken++;
      if (isDrawn.has(place)) drawn.push({ place, data: data.slice(start, start + rowLength) });
      if (!isFinite) continue;
      poolRow(data, start, layout, vectors, members.length * channels);
      members.push(place);
      const bytes = new Uint8Array(data.buffer, data.byteOffset + 4 * start, 4 * rowLength);
      const digest = digestOf(bytes);
      if (!classes.has(digest)) classes.set(digest, classes.size);
      sameAs.push(classes.get(digest)!);
    }
  }
  const data = vectors.subarray(0, members.length * channels);
  const lengths = members.map((_, i) =>
    Math.sqrt(data.subarray(i * channels, (i + 1) * channels).reduce((sum, value) => sum + value * value, 0)),
  );
  return {
    key,
    layout,
    statistics: collector.finish(),
    members,
    vectors: { rows: members.length, columns: channels, data },
    sameAs: Uint16Array.from(sameAs),
    lengths,
    drawn,
    notFinite: taken - members.length,
  };
}

/** Places of the images whose vectors are kept: all of them, or as many as fit into memory, evenly spread. */
export function takePlaces(images: number, channels: number): number[] {
  const fitting = Math.max(1, Math.floor(MAX_SAMPLE_BYTES / (4 * Math.max(1, channels))));
  const count = Math.min(images, MOST_COMPARED, fitting);
  return Array.from({ length: count }, (_, i) => Math.floor((i * images) / count));
}
