/** Feature maps → a byte per place: the channels with the most energy, each scaled to its own range. */
import { listLargest } from '../../../../onnx/tensor/vectors/largest.js';
import { measureFigures } from '../../../../onnx/tensor/measure-figures.js';
import { toBytes } from '../../../maps/principal-colours.js';
import type { Maps } from '../../../maps/maps.js';
import { encodeNumbers } from '../../../../base/html/html.js';
import type { PageMaps } from '../page/data.js';

/** The most maps that a grid shows. */
const MOST_MAPS = 64;
/** The largest side that is shown as it is. */
const MOST_SIDE = 64;

/** The maps of the channels with the most energy (mean square), or of all heads in their order. */
export function drawMaps(given: Maps, order: 'energy' | 'index' = 'energy'): PageMaps {
  const reduced = Math.max(1, Math.ceil(Math.max(...given.size) / MOST_SIDE));
  const maps = shrink(given, reduced);
  const { data } = maps;
  const [height, width] = maps.size;
  const size = height * width;
  const chosen = chooseChannels(given, order);
  const pixels = new Uint8Array(chosen.length * size);
  const drawn = chosen.map((channel, i): [number, number, number] => {
    const map = data.subarray(channel * size, (channel + 1) * size);
    const { least, largest } = measureFigures(map);
    pixels.set(toBytes(map, least, largest), i * size);
    return [channel, least, largest];
  });
  return { height, width, pixels: encodeNumbers(pixels), maps: drawn, reduced };
}

function chooseChannels(
  { channels, size: [height, width], data }: Maps,
  order: 'energy' | 'index',
): number[] {
  const size = height * width;
  const all = Array.from({ length: channels }, (_, c) => c);
  if (order === 'index') return all.slice(0, MOST_MAPS);
  const energy = all.map((c) => {
    let sum = 0;
    for (let i = c * size; i < (c + 1) * size; i++) if (Number.isFinite(data[i]!)) sum += data[i]! ** 2;
    return sum;
  });
  return listLargest(energy, MOST_MAPS);
}

/** Means of squares of `factor` × `factor` places; those at the edges have fewer. */
function shrink(places: Maps, factor: number): Maps {
  if (factor === 1) return places;
  const {
    channels,
    size: [height, width],
  } = places;
  const [rows, columns] = [Math.ceil(height / factor), Math.ceil(width / factor)];
  const data = new Float32Array(channels * rows * columns);
  const counts = new Float32Array(rows * columns);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) counts[Math.floor(y / factor) * columns + Math.floor(x / factor)]!++;
  for (let c = 0; c < channels; c++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++) {
        const at = Math.floor(y / factor) * columns + Math.floor(x / factor);
        data[c * rows * columns + at]! += places.data[(c * height + y) * width + x]! / counts[at]!;
      }
  return { ...places, size: [rows, columns], data };
}
