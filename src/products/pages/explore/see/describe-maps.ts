/** A computed tensor → what the page shows of it. */
import { findGrid } from '../../../../onnx/graph/rewrite/token-grid.js';
import { floatsOf } from '../../../../onnx/tensor/widen.js';
import { listLargest } from '../../../../onnx/tensor/vectors/largest.js';
import { makeTensor, type Tensor } from '../../../../onnx/tensor/tensor.js';
import { measureFigures } from '../../../../onnx/tensor/measure-figures.js';
import { softmax } from '../../../../onnx/tensor/vectors/softmax.js';
import { classColour, classMask, MOST_CLASSES } from '../../../maps/class-mask.js';
import { findMaps, type Maps, type Size } from '../../../maps/maps.js';
import { principalColours } from '../../../maps/principal-colours.js';
import type { FeatureInfo } from '../../../../run/model/prune/feature-info.js';
import { encodeNumbers } from '../../../../base/html/html.js';
import type { PageAttention, PageClass, PageFeatures, PagePixels } from '../page/data.js';
import { drawMaps } from './draw-maps.js';

/** Longer vectors are not drawn. */
const MOST_VALUES = 8192;
/** The share of places that may lie outside of the colours' range, at each end, as in `drawFeatures`. */
const CLIPPED = 0.01;

/**
 * Describes what a node gives for one photo.
 *
 * @param isOutput - Whether it is an output of the model: one of the photo's size, with a channel per class, is a mask.
 */
export async function describeMaps(
  tensor: Tensor,
  layout: FeatureInfo['layout'],
  imageSize?: Size,
  isOutput = false,
): Promise<PageFeatures> {
  const { dtype, dims } = tensor;
  const values = floatsOf(tensor) ?? new Float32Array();
  const found =
    values.length > 0 ? findMaps(makeTensor('float32', dims, values), layout, imageSize, tensor) : '';
  const places = typeof found === 'string' ? undefined : { ...found, rows: 1 };
  const isMap = places !== undefined && countPlaces(places) > 1;
  const maps = isMap ? drawMaps(places) : null;
  const [colours] = (isMap && (await principalColours([places], CLIPPED))) || [];
  const hasVector = !isMap && values.length > 0 && values.length <= MOST_VALUES;
  return {
    dtype,
    dims,
    statistics: {
      ...measureFigures(values),
      count: values.length,
      channels: places?.channels ?? null,
      dead: places ? countDead(places) : null,
    },
    maps,
    colours: colours
      ? { height: places!.size[0], width: places!.size[1], pixels: encodeNumbers(colours) }
      : null,
    mask: isOutput && places && places.size.join() === imageSize?.join() ? drawMask(places) : null,
    vector: hasVector ? encodeNumbers(values) : null,
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

/** The class with the highest score at every place, in its colour. */
function drawMask({ channels, size: [height, width], data }: Maps): PagePixels | null {
  if (channels < 2 || channels > MOST_CLASSES) return null;
  const scores = makeTensor('float32', [1, channels, height, width], data);
  const colours = new Uint8Array(3 * height * width);
  for (const [place, index] of classMask(scores, { height, width }).entries())
    colours.set(classColour(index), 3 * place);
  return { height, width, pixels: encodeNumbers(colours) };
}

/**
 * The attention of the class token. If the model has no class token, the average over all tokens.
 *
 * @param tensor - `[1, heads, tokens, tokens]` or `[heads, tokens, tokens]`.
 * @returns undefined for other tensors, and where the tokens are no grid of patches.
 */
export function describeAttention(tensor: Tensor, imageSize?: Size): PageAttention | undefined {
  const values = floatsOf(tensor);
  const [heads = 0, tokens = 0, others] = tensor.dims.slice(-3);
  const grid = findGrid(tokens, imageSize, undefined);
  if (!values || tensor.dims.length < 3 || tokens !== others || typeof grid === 'string') return undefined;
  const { prefix } = grid;
  const patches = tokens - prefix;
  const data = new Float32Array(heads * patches);
  const rows = prefix > 0 ? 1 : tokens;
  for (let head = 0; head < heads; head++)
    for (let row = 0; row < rows; row++)
      for (let i = 0; i < patches; i++)
        data[head * patches + i]! += values[(head * tokens + row) * tokens + prefix + i]! / rows;
  const maps = drawMaps({ rows: 1, channels: heads, size: grid.size!, data, prefix }, 'index');
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

function countPlaces({ size: [height, width] }: Maps): number {
  return height * width;
}

/** Channels whose values are all the same. */
function countDead(maps: Maps): number {
  const { channels, data } = maps;
  const size = countPlaces(maps);
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
