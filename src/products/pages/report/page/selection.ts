/** The images that the reader has gathered, by drawing around them or by a part of their names: a grid, and the list to take away. */
import { byId, make, makeCopyButton } from '../../../../base/html/browser/elements.js';
import { formatCount } from '../../../../base/html/numbers.js';
import type { Points } from './points.js';
import { makeSaveForm, type SaveEvents } from './save-form.js';
import { makeTile, shortName, type ShownImages } from './tiles.js';

/** Images that the grid shows; the list has all. */
const MOST_TILES = 96;

/** What a selection tells. */
export interface SelectionEvents extends SaveEvents {
  /** Called with the points, or undefined for none. */
  readonly onSelect: (points: ReadonlySet<number> | undefined) => void;
  readonly onChoose: (point: number) => void;
}

/** Gathers points. */
export class Selection {
  readonly #images: ShownImages;
  readonly #names: readonly string[];
  readonly #events: SelectionEvents;
  readonly #field = byId('find-image') as HTMLInputElement;
  readonly #place = byId('gathered');
  #points!: Points;
  /** The points among which names are found; undefined for all. */
  kept: ReadonlySet<number> | undefined;

  constructor(images: ShownImages, events: SelectionEvents) {
    this.#images = images;
    this.#events = events;
    this.#names = images.names.map((name) => name.toLowerCase());
    this.#field.addEventListener('input', () => this.#find());
  }

  /** Takes the points of another output, and forgets what was gathered. */
  start(points: Points): void {
    this.#points = points;
    this.clear();
  }

  clear(): void {
    this.#field.value = '';
    this.#place.replaceChildren();
    this.#events.onSelect(undefined);
  }

  #find(): void {
    const wanted = this.#field.value.trim().toLowerCase();
    if (wanted === '') return this.clear();
    const found: number[] = [];
    this.#points.members.forEach((image, point) => {
      if (this.#names[image]!.includes(wanted) && this.kept?.has(point) !== false) found.push(point);
    });
    this.show(found);
  }

  /** Shows points: those with pictures first. */
  show(points: readonly number[]): void {
    const { members, count } = this.#points;
    const { thumbnails, names, key } = this.#images;
    this.#events.onSelect(new Set(points));
    const pictured = points.filter((point) => thumbnails[members[point]!] !== undefined);
    const tiles = [...new Set([...pictured, ...points])].slice(0, MOST_TILES).map((point) => {
      const name = names[members[point]!]!;
      return makeTile(this.#images, members[point]!, name, shortName(name), () =>
        this.#events.onChoose(point),
      );
    });
    const more = points.length - tiles.length;
    const said = make(
      'span',
      '',
      { role: 'status' },
      `${formatCount(points.length)} of ${formatCount(count)} images`,
    );
    const copy = makeCopyButton('Copy the paths', 'The browser forbids it', () => this.#listOf(points));
    const save = make('button', '', { click: () => this.#save(points) }, 'Save as a list');
    const clear = make('button', '', { click: () => this.clear() }, 'Clear');
    const column =
      key === null || points.length === 0
        ? []
        : makeSaveForm(key, () => this.#imagesOf(points), this.#events);
    this.#place.replaceChildren(
      make('div', 'tools line gathered-head', said, points.length > 0 ? [copy, save] : [], clear),
      make('div', '', column),
      make('div', 'tiles gathered', tiles),
      make('p', 'note', more > 0 ? `and ${formatCount(more)} more; the list has all` : ''),
    );
  }

  /** A path a line, as the dataset has it. */
  #listOf(points: readonly number[]): string {
    const { paths, names } = this.#images;
    return this.#imagesOf(points)
      .map((image) => `${paths[image] ?? names[image]!}\n`)
      .join('');
  }

  #imagesOf(points: readonly number[]): number[] {
    return points.map((point) => this.#points.members[point]!).toSorted((a, b) => a - b);
  }

  #save(points: readonly number[]): void {
    const url = URL.createObjectURL(new Blob([this.#listOf(points)], { type: 'text/plain' }));
    const link = make('a', '', { href: url, download: 'images.txt' });
    link.click();
    URL.revokeObjectURL(url);
  }
}
