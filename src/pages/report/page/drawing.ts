/** Draws the map on its canvas. */
import { readColours } from '../../../html/browser/theme.js';
import type { Places } from './geometry.js';

/** The colours of the map, as the style sheet has them now. */
export interface Colours {
  readonly paper: string;
  readonly ink: string;
  readonly accent: string;
  /** By folder. */
  readonly folders: readonly string[];
}

const FOLDER_COLOURS = 8;

/** Reads the colours of the map. */
export function readMapColours(): Colours {
  const folderNames = Array.from({ length: FOLDER_COLOURS }, (_, i) => `folder-${i}`);
  const [paper, ink, accent, ...folders] = readColours(['raised', 'ink', 'accent', ...folderNames]);
  return { paper: paper!, ink: ink!, accent: accent!, folders };
}

/** Everything that one drawing of the map needs. */
export interface Scene {
  readonly places: Places;
  readonly width: number;
  readonly height: number;
  readonly colours: Colours;
  /** Folder of a point; undefined if all points have the same colour. */
  readonly folderOf: ((point: number) => number) | undefined;
  /** Folder that is highlighted: points of other folders fade. */
  readonly highlighted: number | undefined;
  readonly cursor: number | undefined;
  readonly selected: number | undefined;
  readonly neighbours: readonly number[];
  /** A point's picture, which may still be loading; undefined to draw dots. */
  readonly pictureOf: ((point: number) => HTMLImageElement | undefined) | undefined;
}

/** Opacity of points that step back. */
const FAINT = 0.3;
/** On maps with more points, dots lie under the pictures. */
const MAX_DOTS_ABOVE = 100;
/** Maximum number of pictures on the map. */
const MAX_PICTURES = 240;

/** The radius of a point in pixels: the more points, the smaller. */
export function dotRadius(points: number): number {
  return Math.max(2.1, 8 - 1.65 * Math.log10(points + 1));
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
  if (selected !== undefined) drawEdges(canvas, scene, selected);
  // A few dots may lie on pictures that leave no room beside them; many dots would cover the pictures.
  const isCrowded = places.length / 2 > MAX_DOTS_ABOVE;
  if (isCrowded) drawDots(canvas, scene, radius, new Set(pictured));
  for (const point of pictured) drawPicture(canvas, scene, point);
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
}

/** Whether a point fades, because another folder is highlighted. */
function isFaint({ folderOf, highlighted }: Scene, point: number): boolean {
  return highlighted !== undefined && folderOf?.(point) !== highlighted;
}

function colourOf({ colours, folderOf }: Scene, point: number): string {
  return folderOf ? colours.folders[folderOf(point)]! : colours.accent;
}

/** Draws one path per colour: thousands of points in a few strokes. */
function drawDots(
  canvas: CanvasRenderingContext2D,
  scene: Scene,
  radius: number,
  without: ReadonlySet<number>,
): void {
  const { places, width, height, colours } = scene;
  const paths = new Map<string, { colour: string; alpha: number; path: Path2D }>();
  for (let point = 0; point < places.length / 2; point++) {
    const [x, y] = [places[point * 2]!, places[point * 2 + 1]!];
    const isOutside = x < -radius || y < -radius || x > width + radius || y > height + radius;
    if (isOutside || without.has(point)) continue;
    const colour = colourOf(scene, point);
    const alpha = isFaint(scene, point) ? FAINT : 1;
    let entry = paths.get(colour + alpha);
    if (!entry) paths.set(colour + alpha, (entry = { colour, alpha, path: new Path2D() }));
    entry.path.moveTo(x + radius, y);
    entry.path.arc(x, y, radius, 0, 7);
  }
  for (const { colour, alpha, path } of [...paths.values()].toSorted((a, b) => a.alpha - b.alpha)) {
    canvas.globalAlpha = alpha;
    canvas.fillStyle = colour;
    canvas.fill(path);
    if (places.length < 3000) {
      canvas.lineWidth = 1;
      canvas.strokeStyle = colours.paper;
      canvas.stroke(path);
    }
  }
  canvas.globalAlpha = 1;
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
  const points = places.length / 2;
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
  for (let point = 0; point < points; point++) take(point);
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
  canvas.globalAlpha = isFaint(scene, point) ? FAINT : 1;
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
