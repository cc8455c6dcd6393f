/** The map: points on a canvas, explored by pointer or keys. */
import { byId } from '../../../../base/html/browser/elements.js';
import { dotRadius, drawLasso, drawScene, pictureSide, readMapColours } from './drawing.js';
import {
  DIRECTIONS,
  MAP_MARGIN,
  fitPoints,
  nearestPoint,
  nextInDirection,
  pointsInside,
  UMAP_STRETCH,
  WHOLE,
  zoomAt,
  type Place,
  type Places,
  type View,
} from './geometry.js';
import { movePlaces } from './move-places.js';
import { MapPointers } from './pointers.js';
import type { Points } from './points.js';
import { faintTest, type Emphasis } from './emphasis.js';
import { showTip } from './tip.js';
import { cachePictures, type ShownImages } from './tiles.js';

/** The coordinates of the map. */
export type Projection = 'pca' | 'umap';

const ZOOM_STEP = 1.5;

/** What a map tells. */
export interface MapEvents {
  /** Called with the chosen point, or undefined; `byKey` if it was chosen with the keyboard. */
  readonly onSelect: (point: number | undefined, byKey: boolean) => void;
  /** Called with the points that the reader has drawn around. */
  readonly onGather: (points: readonly number[]) => void;
}

/** Shows the map of one output at a time. */
export class ImageMap {
  readonly #images: ShownImages;
  readonly #events: MapEvents;
  readonly #frame = byId('map');
  readonly #canvas = byId('canvas') as HTMLCanvasElement;
  readonly #context = this.#canvas.getContext('2d')!;
  readonly #pictureOf: ReturnType<typeof cachePictures>;
  readonly #pointers: MapPointers;
  #emphasis: Emphasis = {};
  #points!: Points;
  #projection: Projection = 'pca';
  #colours = readMapColours();
  #view: View = WHOLE;
  /** Places on the whole map, before zoom. */
  #base: Places = new Float32Array();
  #places: Places = new Float32Array();
  #cursor: number | undefined;
  #selected: number | undefined;
  #withPictures = false;
  #isDue = false;
  readonly #isKept = (point: number): boolean => this.#emphasis.kept?.has(point) !== false;

  constructor(images: ShownImages, events: MapEvents) {
    this.#images = images;
    this.#events = events;
    this.#pictureOf = cachePictures(images, () => this.#request());
    const frame = this.#frame;
    this.#pointers = new MapPointers(frame, this.#canvas, {
      onLook: (event) => this.#look(event && this.#pointAt(event)),
      onClick: (event) => this.#choose(this.#pointAt(event), false),
      onDraw: () => this.#request(),
      onGather: (line) => events.onGather(pointsInside(this.#places, line).filter(this.#isKept)),
      onPan: (byX, byY) => this.#pan(byX, byY),
      onZoom: (by, at) => this.#setView(zoomAt(this.#view, by, at, this.#centre)),
    });
    frame.addEventListener('keydown', (event) => this.#onKey(event));
    frame.addEventListener('focus', () => this.#onFocus());
    frame.addEventListener('blur', () => this.#look(undefined));
    new ResizeObserver(() => this.#lay()).observe(frame);
  }

  /** Shows another output. */
  show(points: Points, projection: Projection): void {
    this.#points = points;
    this.#projection = projection;
    this.#cursor = undefined;
    this.#selected = undefined;
    this.#view = WHOLE;
    this.#lay();
  }

  /** Moves the points to another projection. */
  project(projection: Projection): void {
    const before = this.#places.slice();
    this.#projection = projection;
    this.#view = WHOLE;
    this.#lay();
    const after = this.#places;
    movePlaces(before, after, (places) => {
      // Another move or another size has replaced this one.
      if (this.#projection !== projection || this.#base.length !== after.length || this.#view !== WHOLE)
        return false;
      this.#places = places;
      this.#draw();
      return true;
    });
  }

  /** Draws pictures where there is room, or only dots. */
  drawPictures(withPictures: boolean): void {
    this.#withPictures = withPictures;
    this.#request();
  }

  /** Changes the colours of the points, or which of them step back. */
  emphasise(change: Emphasis): void {
    this.#emphasis = { ...this.#emphasis, ...change };
    this.#request();
  }

  /** Reads the colours again after they have changed. */
  recolour(): void {
    this.#colours = readMapColours();
    this.#request();
  }

  /** Chooses a point without calling back. */
  select(point: number | undefined): void {
    this.#selected = point;
    if (point !== undefined) this.#bringIntoView(point);
    this.#request();
  }

  focus(): void {
    this.#frame.focus({ preventScroll: true });
  }

  zoom(how: 'in' | 'out' | 'reset'): void {
    if (how === 'reset') this.#setView(WHOLE);
    else {
      const at = this.#cursor ?? this.#selected;
      const place = at === undefined ? this.#centre : this.#placeOf(at);
      this.#setView(zoomAt(this.#view, how === 'in' ? ZOOM_STEP : 1 / ZOOM_STEP, place, this.#centre));
    }
  }

  get #size(): { width: number; height: number } {
    return { width: this.#frame.clientWidth, height: this.#frame.clientHeight };
  }

  get #centre(): Place {
    const { width, height } = this.#size;
    return { x: width / 2, y: height / 2 };
  }

  #placeOf(point: number): Place {
    return { x: this.#places[point * 2]!, y: this.#places[point * 2 + 1]! };
  }

  /** Computes all places again, for another size, projection or output. */
  #lay(): void {
    const { width, height } = this.#size;
    const ratio = window.devicePixelRatio;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const points = this.#projection === 'umap' ? this.#points.umap : undefined;
    this.#base = points
      ? fitPoints(points, width, height, MAP_MARGIN, UMAP_STRETCH)
      : fitPoints(this.#points.pca, width, height, MAP_MARGIN);
    this.#setView(this.#view);
    this.#draw();
  }

  #setView(view: View): void {
    this.#view = view;
    const { zoom, panX, panY } = view;
    const { x, y } = this.#centre;
    this.#places = this.#base.map((value, i) =>
      i % 2 === 0 ? x + (value - x) * zoom + panX : y + (value - y) * zoom + panY,
    );
    this.#frame.classList.toggle('zoomed', zoom > 1);
    this.#request();
    this.#showTip();
  }

  #request(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#draw();
    });
  }

  #draw(): void {
    const selected = this.#selected;
    drawScene(this.#context, {
      ...this.#size,
      places: this.#places,
      colours: this.#colours,
      colouring: this.#emphasis.colouring,
      isFaint: faintTest(this.#emphasis),
      compared: this.#points.compared,
      cursor: this.#cursor,
      selected,
      neighbours: selected === undefined ? [] : this.#points.neighboursOf(selected).map(({ point }) => point),
      pictureOf: this.#withPictures ? (point) => this.#pictureOf(this.#points.members[point]!) : undefined,
    });
    const { line } = this.#pointers;
    if (line) drawLasso(this.#context, line, this.#colours);
  }

  /** Moves the cursor to a point without choosing it. */
  #look(point: number | undefined): void {
    if (point === this.#cursor) return;
    this.#cursor = point;
    this.#showTip();
    this.#request();
  }

  #showTip(): void {
    const point = this.#cursor;
    byId('tip').hidden = point === undefined;
    if (point === undefined) return;
    const size = this.#size;
    const gap = this.#withPictures
      ? pictureSide(this.#points.count, size.width, size.height) / 2
      : dotRadius(this.#points.count);
    showTip(this.#images, this.#points.members[point]!, this.#placeOf(point), gap + 10, size);
  }

  /** Moves the map so that it shows a point. */
  #bringIntoView(point: number): void {
    const { x, y } = this.#placeOf(point);
    const { width, height } = this.#size;
    const isIn = x > MAP_MARGIN && y > MAP_MARGIN && x < width - MAP_MARGIN && y < height - MAP_MARGIN;
    if (isIn) return;
    this.#pan(width / 2 - x, height / 2 - y);
  }

  /** Moves the map, unless the whole of it shows. */
  #pan(byX: number, byY: number): void {
    const { zoom, panX, panY } = this.#view;
    if (zoom > 1) this.#setView({ zoom, panX: panX + byX, panY: panY + byY });
  }

  #choose(point: number | undefined, byKey: boolean): void {
    this.select(point);
    this.#events.onSelect(point, byKey);
  }

  /** The point at a pointer. Fingers reach farther than mice, and pictures are larger than dots. */
  #pointAt(event: PointerEvent): number | undefined {
    const { width, height } = this.#size;
    const reach = this.#withPictures ? pictureSide(this.#points.count, width, height) / 2 : 14;
    return nearestPoint(
      this.#places,
      this.#pointers.placeAt(event),
      event.pointerType === 'mouse' ? reach : reach + 12,
      this.#emphasis.kept,
    );
  }

  #onFocus(): void {
    if (this.#cursor !== undefined || !this.#frame.matches(':focus-visible')) return;
    const { kept } = this.#emphasis;
    const selected =
      this.#selected !== undefined && this.#isKept(this.#selected) ? this.#selected : undefined;
    this.#look(selected ?? nearestPoint(this.#places, this.#centre, Infinity, kept));
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = DIRECTIONS[event.key];
    if (direction) this.#step(direction);
    else if (event.key === 'Enter' || event.key === ' ') this.#choose(this.#cursor, true);
    else if (event.key === 'Escape') this.#choose(undefined, true);
    else if (event.key === '+' || event.key === '=') this.zoom('in');
    else if (event.key === '-') this.zoom('out');
    else if (event.key === '0') this.zoom('reset');
    else return;
    event.preventDefault();
  }

  #step(direction: Place): void {
    const { kept } = this.#emphasis;
    const from = this.#cursor ?? this.#selected;
    const next =
      from === undefined
        ? nearestPoint(this.#places, this.#centre, Infinity, kept)
        : (nextInDirection(this.#places, from, direction, kept) ?? from);
    if (next === undefined) return;
    this.#bringIntoView(next);
    this.#look(next);
    byId('live').textContent = this.#images.names[this.#points.members[next]!]!;
  }
}
