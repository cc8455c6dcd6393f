/** Draws the map on its canvas. */
import { readColours } from '../../../../base/html/browser/theme.js';
import type { Colouring } from './colouring.js';
import type { Place, Places } from './geometry.js';

/** The colours of the map, as the style sheet has them now. */
export interface Colours {
  readonly paper: string;
  readonly ink: string;
  readonly accent: string;
  readonly classes: readonly string[];
  readonly steps: readonly string[];
}

const [CLASSES, STEPS] = [20, 13];

/** Reads the colours of the map. */
export function readMapColours(): Colours {
  const named = (name: string, length: number): string[] => Array.from({ length }, (_, i) => `${name}-${i}`);
  const names = ['raised', 'ink', 'accent', ...named('folder', CLASSES), ...named('step', STEPS)];
  const [paper, ink, accent, ...others] = readColours(names);
  const [classes, steps] = [others.slice(0, CLASSES), others.slice(CLASSES)];
  return { paper: paper!, ink: ink!, accent: accent!, classes, steps };
}

/** Everything that one drawing of the map needs. */
export interface Scene {
  readonly places: Places;
  readonly width: number;
  readonly height: number;
  readonly colours: Colours;
  /** Undefined if all points have the same colour. */
  readonly colouring: Colouring | undefined;
  /** Whether a point steps back, because others are isolated; undefined if none does. */
  readonly isFaint: ((point: number) => boolean) | undefined;
  /** How many points, the first ones, may have pictures. */
  readonly compared: number;
  readonly cursor: number | undefined;
  readonly selected: number | undefined;
  readonly neighbours: readonly number[];
  /** A point's picture, which may still be loading; undefined to draw dots. */
  readonly pictureOf: ((point: number) => HTMLImageElement | undefined) | undefined;
}

/** Opacity of points that step back, and of the others. */
const [FAINT, CLEAR] = [0.12, 0.85];
/** On maps with more points, dots are squares, which are drawn sooner, over a veil that shows how many lie there. */
const MANY = 3000;
/** Side of a cell of the veil in pixels, and its opacity where most points lie. */
const [CELL, VEIL] = [8, 0.22];
/** On maps with more points, dots lie under the pictures. */
const MAX_DOTS_ABOVE = 100;
/** Maximum number of pictures on the map. */
const MAX_PICTURES = 240;

/** The radius of a point in pixels: the more points, the smaller. */
export function dotRadius(points: number): number {
  return Math.max(0.9, 8 - 1.65 * Math.log10(points + 1));
}

/** The side of a picture on the map, in pixels. */
export function pictureSide(points: number, width: number, height: number): number {
  return Math.round(Math.min(76, Math.max(40, 0.5 * Math.sqrt((width * height) / Math.max(1, points)))));
}

/** Draws the map. */
export function drawScene(canvas: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, selected, cursor, colours, places } = scene;
  canvas.clearRect(0, 0, width, height);
  const radius = dotRadius(places.length / 2);
  const pictured = scene.pictureOf ? placePictures(scene) : [];
  if (places.length / 2 > MANY) drawVeil(canvas, scene);
  // A few dots may lie on pictures that leave no room beside them; many dots would cover the pictures.
  const isCrowded = places.length / 2 > MAX_DOTS_ABOVE;
  if (isCrowded) drawDots(canvas, scene, radius, new Set(pictured));
  const isLooked = (point: number): boolean => point === selected || scene.neighbours.includes(point);
  for (const point of pictured) if (!isLooked(point)) drawPicture(canvas, scene, point);
  // Over the other pictures, and under those that they join.
  if (selected !== undefined) drawEdges(canvas, scene, selected);
  for (const point of pictured) if (isLooked(point)) drawPicture(canvas, scene, point);
  if (!isCrowded) drawDots(canvas, scene, radius, new Set(pictured));
  const ring = (point: number, width_: number, colour: string): void => {
    if (pictured.includes(point)) return;
    canvas.beginPath();
    canvas.arc(places[point * 2]!, places[point * 2 + 1]!, radius + 2 + width_, 0, 7);
    canvas.lineWidth = width_;
    canvas.strokeStyle = colour;
    canvas.stroke();
  };
  for (const point of scene.neighbours) ring(point, 1.5, colours.accent);
  if (selected !== undefined) ring(selected, 3, colours.accent);
  if (cursor !== undefined) ring(cursor, 2, colours.ink);
  if (scene.colouring?.name === 'cluster') drawNames(canvas, scene, scene.colouring);
}

function colourOf({ colours, colouring }: Scene, point: number): string {
  if (!colouring) return colours.accent;
  return (colouring.isNumber ? colours.steps : colours.classes)[colouring.groupOf[point]!]!;
}

/** Where many points lie: a soft veil, the denser the more. */
function drawVeil(canvas: CanvasRenderingContext2D, { places, width, height, colours }: Scene): void {
  const [columns, rows] = [Math.ceil(width / CELL), Math.ceil(height / CELL)];
  const counts = new Float32Array(columns * rows);
  for (let i = 0; i < places.length; i += 2) {
    const [x, y] = [Math.floor(places[i]! / CELL), Math.floor(places[i + 1]! / CELL)];
    if (x >= 0 && y >= 0 && x < columns && y < rows) counts[y * columns + x]!++;
  }
  const most = counts.reduce((largest, count) => Math.max(largest, count), 1);
  const veil = new OffscreenCanvas(columns, rows);
  const context = veil.getContext('2d')!;
  context.fillStyle = colours.ink;
  counts.forEach((count, at) => {
    if (count === 0) return;
    context.globalAlpha = VEIL * Math.sqrt(count / most);
    context.fillRect(at % columns, Math.floor(at / columns), 1, 1);
  });
  canvas.imageSmoothingEnabled = true;
  canvas.drawImage(veil, 0, 0, columns * CELL, rows * CELL);
}

/** Draws the points group by group: a colour for thousands of points. Those that step back lie below. */
function drawDots(
  canvas: CanvasRenderingContext2D,
  scene: Scene,
  radius: number,
  without: ReadonlySet<number>,
): void {
  const { places, width, height, colouring, isFaint } = scene;
  const count = places.length / 2;
  const isMany = count > MANY;
  for (const faint of isFaint ? [true, false] : [false]) {
    canvas.globalAlpha = faint ? FAINT : CLEAR;
    // What stands out among thousands is larger.
    const size = isFaint && !faint ? Math.max(2.2, radius) : radius;
    let colour = '';
    for (let i = 0; i < count; i++) {
      const point = colouring ? colouring.order[i]! : i;
      const [x, y] = [places[point * 2]!, places[point * 2 + 1]!];
      if (x < -radius || y < -radius || x > width + radius || y > height + radius) continue;
      if ((isFaint?.(point) ?? false) !== faint || without.has(point)) continue;
      const own = colourOf(scene, point);
      if (own !== colour) canvas.fillStyle = colour = own;
      if (isMany) canvas.fillRect(x - size, y - size, 2 * size, 2 * size);
      else {
        canvas.beginPath();
        canvas.arc(x, y, size, 0, 7);
        canvas.fill();
      }
    }
  }
  canvas.globalAlpha = 1;
}

/** Writes the name of each cluster where the middle one of its points lies. */
function drawNames(
  canvas: CanvasRenderingContext2D,
  { places, colours, width, height }: Scene,
  { groups, order }: Colouring,
): void {
  canvas.font = '600 13px system-ui, sans-serif';
  canvas.textAlign = 'center';
  canvas.lineWidth = 4;
  canvas.lineJoin = 'round';
  canvas.strokeStyle = colours.paper;
  canvas.fillStyle = colours.ink;
  let from = 0;
  for (const { name, count } of groups) {
    const points = [...order.subarray(from, (from += count))];
    if (count === 0) continue;
    const middle = (axis: number): number =>
      points.map((point) => places[2 * point + axis]!).toSorted((a, b) => a - b)[count >> 1]!;
    const [x, y] = [middle(0), middle(1)];
    if (x < 0 || y < 0 || x > width || y > height) continue;
    canvas.strokeText(name, x, y);
    canvas.fillText(name, x, y);
  }
}

/** Draws the line that the reader draws around points. */
export function drawLasso(
  canvas: CanvasRenderingContext2D,
  line: readonly Place[],
  { accent }: Colours,
): void {
  canvas.beginPath();
  for (const { x, y } of line) canvas.lineTo(x, y);
  canvas.closePath();
  canvas.lineWidth = 1.5;
  canvas.strokeStyle = accent;
  canvas.fillStyle = accent;
  canvas.globalAlpha = 0.1;
  canvas.fill();
  canvas.globalAlpha = 1;
  canvas.stroke();
}

function drawEdges(canvas: CanvasRenderingContext2D, scene: Scene, selected: number): void {
  const { places, neighbours, colours } = scene;
  canvas.beginPath();
  for (const point of neighbours) {
    canvas.moveTo(places[selected * 2]!, places[selected * 2 + 1]!);
    canvas.lineTo(places[point * 2]!, places[point * 2 + 1]!);
  }
  canvas.lineWidth = 1.5;
  canvas.strokeStyle = colours.accent;
  canvas.stroke();
}

/** Points whose pictures have room without hiding each other. The chosen point and its neighbours take their places first. */
function placePictures(scene: Scene): number[] {
  const { places, width, height, cursor, selected, neighbours } = scene;
  const side = pictureSide(places.length / 2, width, height);
  const looked = [cursor, selected, ...neighbours].filter((point) => point !== undefined);
  const chosen: number[] = [];
  const take = (point: number): void => {
    const [x, y] = [places[point * 2]!, places[point * 2 + 1]!];
    if (chosen.length >= MAX_PICTURES || x < 0 || y < 0 || x > width || y > height) return;
    const covers = (other: number): boolean =>
      Math.abs(places[other * 2]! - x) < side * 0.9 && Math.abs(places[other * 2 + 1]! - y) < side * 0.7;
    if (!chosen.includes(point) && !chosen.some(covers) && scene.pictureOf!(point)) chosen.push(point);
  };
  for (const point of looked) take(point);
  for (let point = 0; point < scene.compared; point++) if (!scene.isFaint?.(point)) take(point);
  return chosen.toReversed();
}

function drawPicture(canvas: CanvasRenderingContext2D, scene: Scene, point: number): void {
  const { places, width, height, colours, selected, cursor, neighbours } = scene;
  const image = scene.pictureOf!(point)!;
  if (!image.complete || image.naturalWidth === 0) return;
  const side = pictureSide(places.length / 2, width, height);
  const scale = (side - 6) / Math.max(image.naturalWidth, image.naturalHeight);
  const [w, h] = [image.naturalWidth * scale, image.naturalHeight * scale];
  const [x, y] = [places[point * 2]! - w / 2, places[point * 2 + 1]! - h / 2];
  const frame = (outset: number, lineWidth: number, colour: string): void => {
    canvas.beginPath();
    canvas.roundRect(x - outset, y - outset, w + 2 * outset, h + 2 * outset, 3 + outset);
    canvas.lineWidth = lineWidth;
    canvas.strokeStyle = colour;
    canvas.stroke();
  };
  canvas.save();
  canvas.globalAlpha = scene.isFaint?.(point) ? FAINT : 1;
  frame(1.5, 3, colourOf(scene, point));
  if (point === selected) frame(5, 4, colours.accent);
  else if (point === cursor) frame(4, 2, colours.ink);
  else if (neighbours.includes(point)) frame(4, 2, colours.accent);
  canvas.beginPath();
  canvas.roundRect(x, y, w, h, 3);
  canvas.clip();
  canvas.drawImage(image, x, y, w, h);
  canvas.restore();
}
