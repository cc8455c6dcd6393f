/** Near-duplicates: groups at a threshold that the reader can move. */
import { byId, make } from '../../../../base/html/browser/elements.js';
import { formatCount } from '../../../../base/html/numbers.js';
import { groupsWithin } from './groups.js';
import { formatCosine, type Points } from './points.js';
import { makeTile, shortName, type ShownImages } from './tiles.js';

const MAX_GROUPS = 12;
const MAX_TILES = 12;
const STEPS = 400;

/** Shows the groups of an output. */
export function showDuplicates(images: ShownImages, points: Points, onChoose: (point: number) => void): void {
  const most = Math.max(1e-6, points.duplicateDistance, points.forestDistances.at(-1) ?? 0);
  // Half of the way covers the nearest eighth.
  const distanceAt = (step: number): number => most * (step / STEPS) ** 3;
  const stepAt = (distance: number): number => Math.round(STEPS * Math.cbrt(distance / most));

  const slider = make('input', '', { type: 'range', id: 'threshold', max: STEPS, input: () => update() });
  slider.value = String(stepAt(points.duplicateDistance));
  const output = make('output', '');
  const label = make(
    'label',
    'threshold line',
    make('span', 'small', 'identical only'),
    slider,
    make('span', 'small', 'looser'),
    output,
  );
  const summary = make('p', 'lead', { role: 'status' });
  const list = make('div', 'groups grid');
  let limit = MAX_GROUPS;
  const update = (): void => {
    const distance = distanceAt(slider.valueAsNumber);
    const text = `cosine ≥ ${formatCosine(distance)}`;
    output.textContent = text;
    slider.setAttribute('aria-valuetext', text);
    const groups = groupsWithin(points.forest, points.forestDistances, points.compared, distance);
    const identical = groups.filter((group) => sharedBy(points, group).size > 0).length;
    const members = groups.reduce((sum, group) => sum + group.length, 0);
    summary.textContent =
      groups.length === 0
        ? 'No two images are this close.'
        : `${groups.length === 1 ? 'One group' : `${groups.length} groups`}, ${members} images` +
          (identical === 0
            ? '.'
            : `; identical features in ${identical === 1 ? 'one group' : `${identical} groups`}.`);
    const shown = groups.slice(0, limit).map((group) => makeGroup(images, points, group, onChoose));
    const more = groups.length - shown.length;
    const showMore = (): void => {
      limit *= 4;
      update();
    };
    list.replaceChildren(
      ...shown,
      ...(more > 0
        ? [make('button', '', { click: showMore }, `Show more of the other ${formatCount(more)}`)]
        : []),
    );
  };
  const note = make(
    'p',
    'note',
    'A group is a chain of pairs that are at least this alike. ' +
      (points.compared < points.count
        ? `Only the ${formatCount(points.compared)} images that were compared with each other count. `
        : '') +
      'It starts where images are twenty times nearer than two usually are, and at a cosine of 0.98 or more.',
  );
  byId('duplicates').replaceChildren(label, summary, list, note);
  update();
}

/** The numbers of `sameAs` that more than one member of the group has. */
function sharedBy({ sameAs }: Points, group: readonly number[]): Set<number> {
  const once = new Set<number>();
  const twice = new Set<number>();
  for (const point of group) {
    const number = sameAs[point]!;
    if (once.has(number)) twice.add(number);
    once.add(number);
  }
  return twice;
}

function makeGroup(
  images: ShownImages,
  points: Points,
  group: readonly number[],
  onChoose: (point: number) => void,
): HTMLElement {
  const shared = sharedBy(points, group);
  const tiles = group.slice(0, MAX_TILES).map((point) => {
    const name = images.names[points.members[point]!]!;
    const isShared = shared.has(points.sameAs[point]!);
    const label = isShared ? `${name}, identical features` : name;
    const tile = makeTile(images, points.members[point]!, label, shortName(name), () => onChoose(point));
    if (isShared) tile.classList.add('identical');
    return tile;
  });
  const more = group.length - tiles.length;
  return make(
    'div',
    'group raised',
    make(
      'p',
      'group-name line',
      `${group.length} images`,
      shared.size > 0 ? make('span', 'badge', 'identical') : undefined,
    ),
    make('div', 'tiles', tiles, more > 0 ? make('span', 'more muted', `+${more}`) : undefined),
  );
}
