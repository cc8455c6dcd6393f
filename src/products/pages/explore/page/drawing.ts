/** Maps, colours and heat on canvases. */
import { colourOf, HEATMAP_OPACITY, INFERNO, VIRIDIS, type Colour } from '../../../maps/colour-map.js';
import { decodeNumbers } from '../../../../base/html/browser/decode-numbers.js';
import { make } from '../../../../base/html/browser/elements.js';
import { formatValue } from '../../../../base/html/numbers.js';
import type { PageHeat, PageMaps, PagePhoto, PagePixels } from './data.js';

/** The colours of the values 0 to 255. */
function table(stops: readonly Colour[]): number[][] {
  return Array.from({ length: 256 }, (_, value) => colourOf(value / 255, stops).map(Math.round));
}
const MAP_COLOURS = table(VIRIDIS);
const HEAT_COLOURS = table(INFERNO);

/** A canvas of values that a screen reader hears as its label; a place is one pixel, and the style sheet enlarges it. */
function canvasOf(
  { width, height }: Pick<PagePixels, 'width' | 'height'>,
  label: string,
  colourAt: (place: number) => ArrayLike<number>,
): HTMLCanvasElement {
  const canvas = make('canvas', 'pixels', { width, height, role: 'img', 'aria-label': label });
  const context = canvas.getContext('2d')!;
  const image = context.createImageData(width, height);
  image.data.fill(255);
  for (let i = 0; i < width * height; i++) image.data.set(colourAt(i), 4 * i);
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A grid of maps, each with its channel, and below it the value under the pointer. */
export function drawGrid(maps: PageMaps, noun: string): HTMLElement[] {
  const { width, height } = maps;
  const values = decodeNumbers(Uint8Array, maps.pixels);
  const said = make('p', 'value note', ' ');
  const figures = maps.maps.map(([channel, least, largest], i) => {
    const valueOf = (place: number): number => values[i * width * height + place]!;
    const label = `${noun} ${channel}: from ${formatValue(least)} to ${formatValue(largest)}`;
    const canvas = canvasOf(maps, label, (place) => MAP_COLOURS[valueOf(place)]!);
    canvas.addEventListener('pointermove', ({ offsetX, offsetY }) => {
      const x = Math.min(width - 1, Math.max(0, Math.floor((offsetX / canvas.clientWidth) * width)));
      const y = Math.min(height - 1, Math.max(0, Math.floor((offsetY / canvas.clientHeight) * height)));
      const value = least + ((largest - least) * valueOf(y * width + x)) / 255;
      said.textContent = `${noun} ${channel}, row ${y}, column ${x}: ${formatValue(value)}`;
    });
    return make('figure', 'map-figure', canvas, make('figcaption', 'muted', String(channel)));
  });
  const traits = { role: 'group', 'aria-label': `Maps by ${noun}`, tabIndex: 0 };
  return [make('div', 'maps', traits, figures), said];
}

/** The scale of the maps. */
export function drawScale(kind: 'map' | 'heat'): HTMLElement {
  const colours = kind === 'map' ? MAP_COLOURS : HEAT_COLOURS;
  const [low, high] = kind === 'map' ? ['least of each map', 'largest'] : ['0', '1'];
  const canvas = canvasOf({ width: 256, height: 1 }, 'scale', (place) => colours[place]!);
  return make('p', 'scale line tiny', { 'aria-hidden': true }, low, canvas, high);
}

/** Red, green and blue of each place: principal components, or classes. */
export function drawColours(colours: PagePixels, label: string): HTMLCanvasElement {
  const values = decodeNumbers(Uint8Array, colours.pixels);
  return canvasOf(colours, label, (place) => values.subarray(3 * place, 3 * place + 3));
}

/** Heat over a photo. */
export function drawHeat(heat: PageHeat, photo: PagePhoto): HTMLCanvasElement {
  const { width, height, pixels, label, classIndex } = heat;
  const values = decodeNumbers(Uint8Array, pixels);
  const about = `Where class ${label ?? classIndex} comes from in ${photo.name}`;
  const canvas = canvasOf(heat, about, (place) => HEAT_COLOURS[values[place]!]!);
  const image = new Image();
  image.src = photo.picture;
  void image
    .decode()
    .then(() => {
      const context = canvas.getContext('2d')!;
      context.globalAlpha = 1 - HEATMAP_OPACITY;
      context.drawImage(image, 0, 0, width, height);
    })
    .catch(() => (canvas.title = `${photo.name} cannot be drawn under the map.`));
  return canvas;
}

/** A vector as bars around zero. */
export function drawVector(values: Float32Array): HTMLElement {
  const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) || 1;
  const width = Math.min(values.length, 512);
  const label = `${values.length} values, at most ${formatValue(most)} from zero`;
  const canvas = make('canvas', 'vector', { width, height: 96, role: 'img', 'aria-label': label });
  const context = canvas.getContext('2d')!;
  context.fillStyle = getComputedStyle(document.body).color;
  for (let x = 0; x < width; x++) {
    const from = Math.floor((x * values.length) / width);
    const to = Math.max(from + 1, Math.floor(((x + 1) * values.length) / width));
    const here = values.subarray(from, to);
    const [low, high] = [Math.min(0, ...here), Math.max(0, ...here)];
    context.fillRect(x, 48 - (46 * high) / most, 1, Math.max(0.5, (46 * (high - low)) / most));
  }
  return canvas;
}
