/** A computed tensor → what the page shows of it. */
import type { FeatureInfo } from '../../../model/prune/feature-info.js';
import type { Tensor } from '../../../tensor/tensor.js';
import { listLargest } from '../../../tensor/vectors/largest.js';
import { softmax } from '../../../tensor/vectors/softmax.js';
import { encodeNumbers } from '../../../html/html.js';
import type { PageAttention, PageClass, PageFeatures } from '../page/data.js';
import { drawMaps, toBytes } from './draw-maps.js';
import { measureValues } from './measure-values.js';
import { gridOf, type Places, readPlaces, valuesOfTensor } from './places.js';
import { findComponents } from '../../base/principal-components.js';

/** Longer vectors are not drawn. */
const MOST_VALUES = 8192;

/** Describes what a node gives for one photo. */
export async function describeMaps(tensor: Tensor, layout: FeatureInfo['layout']): Promise<PageFeatures> {
  const { dtype, dims } = tensor;
  const values = valuesOfTensor(tensor) ?? new Float32Array();
  const places = readPlaces(values, dims, layout);
  const isMap = places !== undefined && places.height * places.width > 1;
  const maps = isMap ? drawMaps(places) : null;
  const colours = isMap ? await principalColours(places) : undefined;
  const hasVector = !isMap && values.length > 0 && values.length <= MOST_VALUES;
  return {
    dtype,
    dims,
    statistics: {
      ...measureValues(values),
      count: values.length,
      channels: places?.channels ?? null,
      dead: places ? countDead(places) : null,
    },
    maps,
    colours: colours
      ? { height: places!.height, width: places!.width, pixels: Buffer.from(colours).toString('base64') }
      : null,
    vector: hasVector ? encodeNumbers(values.slice()) : null,
    notes: [
      ...(places && places.prefix > 0
        ? [
            `${places.prefix === 1 ? 'The class token is' : `${places.prefix} tokens before the patches are`} left out of the maps.`,
          ]
        : []),
      ...(maps && maps.reduced > 1
        ? [`Each shown place is the mean of ${maps.reduced} × ${maps.reduced}.`]
        : []),
      ...(maps && places!.channels > maps.maps.length
        ? [`The ${maps.maps.length} channels with the most energy, of ${places!.channels}.`]
        : []),
    ],
  };
}

/**
 * The attention of the class token. If the model has no class token, the average over all tokens.
 *
 * @param tensor - `[1, heads, tokens, tokens]` or `[heads, tokens, tokens]`.
 * @returns undefined for other tensors, and where the tokens are no grid of patches.
 */
export function describeAttention(tensor: Tensor): PageAttention | undefined {
  const values = valuesOfTensor(tensor);
  const [heads = 0, tokens = 0, others] = tensor.dims.slice(-3);
  const grid = gridOf(tokens);
  if (!values || tensor.dims.length < 3 || tokens !== others || !grid) return undefined;
  const { side, prefix } = grid;
  const patches = side * side;
  const data = new Float32Array(heads * patches);
  const rows = prefix > 0 ? 1 : tokens;
  for (let head = 0; head < heads; head++)
    for (let row = 0; row < rows; row++)
      for (let i = 0; i < patches; i++)
        data[head * patches + i]! += values[(head * tokens + row) * tokens + prefix + i]! / rows;
  const maps = drawMaps({ channels: heads, height: side, width: side, data, prefix }, 'index');
  return { ...maps, from: prefix > 0 ? 'the class token' : 'a token, on average,' };
}

/** The classes with the highest scores. */
export function topClasses(
  scores: Float32Array,
  labels: readonly string[] | null,
  count: number,
): PageClass[] {
  const sum = scores.reduce((total, score) => total + score, 0);
  const areProbabilities = scores.every((score) => score >= 0 && score <= 1) && Math.abs(sum - 1) < 1e-3;
  const probabilities = areProbabilities ? scores : softmax(scores);
  return listLargest(scores, count).map((index) => ({
    index,
    label: labels?.[index] ?? null,
    score: scores[index]!,
    probability: probabilities[index]!,
  }));
}

/** Channels whose values are all the same. */
function countDead({ channels, height, width, data }: Places): number {
  const size = height * width;
  if (size < 2) return 0;
  let dead = 0;
  for (let c = 0; c < channels; c++) {
    const first = data[c * size]!;
    let i = 1;
    while (i < size && Object.is(data[c * size + i]!, first)) i++;
    if (i === size) dead++;
  }
  return dead;
}

const COMPONENTS = 3;
/** The share of places that may lie outside of the colours' range, at each end. */
const CLIPPED = 0.01;

/** The colours of places as bytes `[height, width, 3]`; undefined with fewer than three channels. The same values give the same colours. */
export async function principalColours({
  channels,
  height,
  width,
  data,
}: Places): Promise<Uint8Array | undefined> {
  const size = height * width;
  if (channels < COMPONENTS || size < COMPONENTS) return undefined;
  const rows = Float32Array.from({ length: channels * size }, (_, i) => {
    const value = data[(i % channels) * size + Math.floor(i / channels)]!;
    return Number.isFinite(value) ? value : 0;
  });
  const breathe = (): Promise<void> => Promise.resolve();
  const { places } = await findComponents({ rows: size, columns: channels, data: rows }, COMPONENTS, breathe);
  const colours = new Uint8Array(COMPONENTS * size);
  places.forEach((values, k) => {
    const bytes = toBytes(Float32Array.from(values), ...clippedRange(values));
    bytes.forEach((byte, i) => (colours[COMPONENTS * i + k] = byte));
  });
  return colours;
}

function clippedRange(values: readonly number[]): [number, number] {
  const sorted = values.toSorted((a, b) => a - b);
  const skip = Math.floor(CLIPPED * sorted.length);
  return [sorted[skip]!, sorted[sorted.length - 1 - skip]!];
}
