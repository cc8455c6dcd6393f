/** The panel beside the map: the chosen image and its nearest neighbours. */
import { byId, make } from '../../../html/browser/elements.js';
import type { PageImages } from './data.js';
import { formatCosine, type Points } from './points.js';
import { makePicture, makeTile, shortName } from './tiles.js';

/** Shows a point and its neighbours; without a point, a hint. */
export function showPanel(
  images: PageImages,
  points: Points,
  point: number | undefined,
  onChoose: (point: number) => void,
): void {
  const panel = byId('panel');
  if (point === undefined) {
    const hint = 'Choose an image on the map to see it here with its nearest images.';
    panel.replaceChildren(make('p', 'panel-hint', hint));
    return;
  }
  const image = points.members[point]!;
  const name = images.names[image]!;
  const size = images.sizes[image];
  const facts = [size ? `${size[0]} × ${size[1]} pixels` : '', `row ${images.rows[image]}`];
  const heading = make('h3', 'panel-name', make('bdi', '', shortName(name)));
  const path = make('p', 'panel-path', make('bdi', '', name));
  const note = make('p', 'note', facts.filter((fact) => fact !== '').join(' · '));
  const neighbours = points.neighboursOf(point).map(({ point: other, distance }) => {
    const otherName = images.names[points.members[other]!]!;
    const isSame = points.sameAs[other] === points.sameAs[point];
    const cosine = isSame ? 'identical' : formatCosine(distance);
    const label = `${otherName}, ${isSame ? 'identical features' : `cosine ${cosine}`}`;
    const tile = makeTile(images, points.members[other]!, label, cosine, () => onChoose(other));
    tile.dataset['point'] = String(other);
    return tile;
  });
  const title = make('h4', '', `${neighbours.length} nearest, by cosine`);
  panel.replaceChildren(
    make('div', 'panel-picture', makePicture(images, image)),
    heading,
    ...(shortName(name) === name ? [] : [path]),
    note,
    ...(neighbours.length === 0 ? [] : [title, make('div', 'tiles', ...neighbours)]),
  );
  const count =
    neighbours.length === 1 ? 'Its nearest image is' : `Its ${neighbours.length} nearest images are`;
  const names = neighbours.map((tile) => tile.getAttribute('aria-label')).join('; ');
  byId('live').textContent =
    `${name}. ${neighbours.length === 0 ? 'It is the only one.' : `${count}: ${names}.`}`;
}
