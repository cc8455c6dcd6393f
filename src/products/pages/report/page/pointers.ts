/** What pointers on the map mean: a look at a point, a choice, a line around points, another view. */
import type { Place } from './geometry.js';

/** A pointer that moves no farther has clicked. */
const CLICK_SLOP = 5;

/** What pointers do to a map. Places are those of the canvas. */
export interface PointerEvents {
  /** A pointer hovers, or has left. */
  readonly onLook: (event: PointerEvent | undefined) => void;
  readonly onClick: (event: PointerEvent) => void;
  /** The line around points has grown. */
  readonly onDraw: () => void;
  readonly onGather: (line: readonly Place[]) => void;
  readonly onPan: (byX: number, byY: number) => void;
  readonly onZoom: (by: number, at: Place) => void;
}

/** Listens to the pointers on a map. */
export class MapPointers {
  readonly #frame: HTMLElement;
  readonly #canvas: HTMLElement;
  readonly #events: PointerEvents;
  readonly #pointers = new Map<number, Place>();
  #line: Place[] | undefined;
  #pressed: Place | undefined;
  #isMoved = false;

  constructor(frame: HTMLElement, canvas: HTMLElement, events: PointerEvents) {
    this.#frame = frame;
    this.#canvas = canvas;
    this.#events = events;
    frame.addEventListener('pointermove', (event) => this.#onMove(event));
    frame.addEventListener('pointerdown', (event) => this.#onDown(event));
    frame.addEventListener('pointerup', (event) => this.#onUp(event));
    frame.addEventListener('pointercancel', (event) => {
      this.#pointers.delete(event.pointerId);
      this.#line = undefined;
    });
    frame.addEventListener('pointerleave', () => events.onLook(undefined));
    frame.addEventListener('wheel', (event) => this.#onWheel(event), { passive: false });
  }

  /** What the reader draws around points. */
  get line(): readonly Place[] | undefined {
    return this.#line;
  }

  placeAt({ clientX, clientY }: MouseEvent): Place {
    const { left, top } = this.#canvas.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  }

  #onDown(event: PointerEvent): void {
    const place = this.placeAt(event);
    this.#pointers.set(event.pointerId, place);
    this.#pressed = place;
    this.#isMoved = false;
    // The page marks the frame while the pointer draws around points.
    if (!event.shiftKey && !this.#frame.classList.contains('gathering')) return;
    this.#line = [place];
    this.#frame.setPointerCapture(event.pointerId);
    this.#events.onLook(undefined);
  }

  #onMove(event: PointerEvent): void {
    const place = this.placeAt(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before) return this.#events.onLook(event);
    this.#pointers.set(event.pointerId, place);
    if (this.#line) {
      this.#line.push(place);
      return this.#events.onDraw();
    }
    const [other] = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
    if (other) {
      const spread = (from: Place): number => Math.hypot(from.x - other.x, from.y - other.y);
      this.#isMoved = true;
      this.#events.onZoom(spread(place) / Math.max(1, spread(before)), other);
    } else this.#events.onPan(place.x - before.x, place.y - before.y);
    const { x, y } = this.#pressed!;
    if (Math.hypot(place.x - x, place.y - y) > CLICK_SLOP) this.#isMoved = true;
  }

  #onUp(event: PointerEvent): void {
    const wasDown = this.#pointers.delete(event.pointerId);
    const line = this.#line;
    this.#line = undefined;
    // A click gathers nothing: it chooses.
    if (line && line.length > 2) return this.#events.onGather(line);
    if (wasDown && !this.#isMoved) this.#events.onClick(event);
  }

  #onWheel(event: WheelEvent): void {
    // Without a modifier key the page scrolls as usual. Trackpads report a pinch with the key set.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.#events.onZoom(Math.exp(-event.deltaY / 250), this.placeAt(event));
  }
}
