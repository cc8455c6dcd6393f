/** Maps, colours and heat on canvases. */
import { decodeBytes } from '../../../html/browser/decode-numbers.js';
import { make } from '../../../html/browser/elements.js';
import { colourOf, INFERNO, VIRIDIS, type Colour } from '../../../explain/photos/colour-map.js';
import type { PageFeatures, PageHeat, PageMaps, PagePhoto } from './data.js';

/** The colours of the values 0 to 255, three bytes each. */
function table(stops: readonly Colour[]): Uint8Array {
  return Uint8Array.from({ length: 3 * 256 }, (_, at) =>
    Math.round(colourOf(Math.floor(at / 3) / 255, stops)[at % 3]!),
  );
}
const MAP_COLOURS = table(VIRIDIS);
const HEAT_COLOURS = table(INFERNO);

/** Share of the heat's colours in an overlay. */
const OPACITY = 0.55;
/** Pixels of a place at the least, so that a screen reader's zoom and a small map stay sharp. */
const LEAST_SIDE = 64;

/** A canvas whose pixels are given; a place is one pixel, and the style sheet enlarges it. */
function canvasOf(
  width: number,
  height: number,
  paint: (pixels: Uint8ClampedArray) => void,
): HTMLCanvasElement {
  const canvas = make('canvas', 'pixels');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d')!;
  const image = context.createImageData(width, height);
  image.data.fill(255);
  paint(image.data);
  context.putImageData(image, 0, 0);
  return canvas;
}

function paintMap(pixels: Uint8ClampedArray, values: Uint8Array, colours: Uint8Array): void {
  values.forEach((value, i) => {
    for (let c = 0; c < 3; c++) pixels[4 * i + c] = colours[3 * value + c]!;
  });
}

/** A grid of maps, each with its channel and its scale; `onValue` hears of the place under the pointer. */
export function drawGrid(maps: PageMaps, noun: string, onValue: (text: string) => void): HTMLElement {
  const { width, height } = maps;
  const values = decodeBytes(maps.pixels);
  const size = width * height;
  const grid = make('div', 'maps');
  grid.style.setProperty('--side', `${Math.max(LEAST_SIDE, width)}px`);
  maps.maps.forEach(([channel, least, largest], i) => {
    const one = values.subarray(i * size, (i + 1) * size);
    const canvas = canvasOf(width, height, (pixels) => paintMap(pixels, one, MAP_COLOURS));
    canvas.setAttribute('role', 'img');
    canvas.setAttribute(
      'aria-label',
      `${noun} ${channel}: from ${formatNumber(least)} to ${formatNumber(largest)}`,
    );
    canvas.addEventListener('pointermove', ({ offsetX, offsetY }) => {
      const x = Math.min(width - 1, Math.max(0, Math.floor((offsetX / canvas.clientWidth) * width)));
      const y = Math.min(height - 1, Math.max(0, Math.floor((offsetY / canvas.clientHeight) * height)));
      const value = least + ((largest - least) * one[y * width + x]!) / 255;
      onValue(`${noun} ${channel}, row ${y}, column ${x}: ${formatNumber(value)}`);
    });
    const caption = make(
      'figcaption',
      '',
      make('span', 'channel', String(channel)),
      make('span', 'range', `${formatNumber(least)} … ${formatNumber(largest)}`),
    );
    grid.append(make('figure', 'map-figure', canvas, caption));
  });
  return grid;
}

/** The scale of the maps. */
export function drawScale(kind: 'map' | 'heat'): HTMLElement {
  const colours = kind === 'map' ? MAP_COLOURS : HEAT_COLOURS;
  const canvas = canvasOf(256, 1, (pixels) =>
    paintMap(
      pixels,
      Uint8Array.from({ length: 256 }, (_, i) => i),
      colours,
    ),
  );
  canvas.setAttribute('aria-hidden', 'true');
  const [low, high] = kind === 'map' ? ['least of each map', 'largest'] : ['0', '1'];
  return make('p', 'scale', make('span', '', low), canvas, make('span', '', high));
}

/** Principal components as colours. */
export function drawColours({
  width,
  height,
  pixels,
}: NonNullable<PageFeatures['colours']>): HTMLCanvasElement {
  const values = decodeBytes(pixels);
  const canvas = canvasOf(width, height, (data) => {
    for (let i = 0; i < width * height; i++) for (let c = 0; c < 3; c++) data[4 * i + c] = values[3 * i + c]!;
  });
  canvas.setAttribute('role', 'img');
  canvas.setAttribute(
    'aria-label',
    'The first three principal components of the channels as red, green and blue',
  );
  return canvas;
}

/** Heat over a photo. */
export function drawHeat(
  { width, height, pixels, label, classIndex }: PageHeat,
  photo: PagePhoto,
): HTMLCanvasElement {
  const heat = decodeBytes(pixels);
  const canvas = canvasOf(width, height, (data) => paintMap(data, heat, HEAT_COLOURS));
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `Where class ${label ?? classIndex} comes from in ${photo.name}`);
  const image = new Image();
  image.src = photo.picture;
  void image
    .decode()
    .then(() => {
      const context = canvas.getContext('2d')!;
      context.globalAlpha = 1 - OPACITY;
      context.drawImage(image, 0, 0, width, height);
    })
    .catch(() => (canvas.title = `${photo.name} cannot be drawn under the map.`));
  return canvas;
}

/** A vector as bars around zero. */
export function drawVector(values: Float32Array): HTMLElement {
  const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0) || 1;
  const columns = Math.min(values.length, 512);
  const canvas = make('canvas', 'vector');
  canvas.width = columns;
  canvas.height = 96;
  const context = canvas.getContext('2d')!;
  context.fillStyle = getComputedStyle(document.body).getPropertyValue('color');
  for (let x = 0; x < columns; x++) {
    const from = Math.floor((x * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((x + 1) * values.length) / columns));
    let [low, high] = [0, 0];
    for (const value of values.subarray(from, to)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    context.fillRect(x, 48 - (46 * high) / most, 1, Math.max(0.5, (46 * (high - low)) / most));
  }
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${values.length} values, at most ${formatNumber(most)} from zero`);
  return canvas;
}

/** Four significant digits. */
export function formatNumber(value: number): string {
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replaceAll('-', '−');
}
