/** Starts the page: connects the map, the panel, the controls and the lists. */
import { byId, make, makeChip, onPress, press, readPageData } from '../../../html/browser/elements.js';
import { startTheme } from '../../../html/browser/theme.js';
import type { PageData, PageImages } from './data.js';
import { showDuplicates } from './duplicates.js';
import { ImageMap, type Projection } from './map.js';
import { decodePoints, formatCosine, type Points } from './points.js';
import { startSearch } from './search-box.js';
import { makePicture, makeTile, shortName } from './tiles.js';

function start(): void {
  const data = readPageData<PageData>();
  startFailureSearch();
  if (data.outputs.length === 0 || data.images.names.length === 0) {
    startTheme(() => undefined);
    byId('map-section').hidden = true;
    byId('duplicates-section').hidden = true;
    return;
  }
  const decoded = new Map<number, Points>();
  const pointsOf = (output: number): Points => {
    let points = decoded.get(output);
    if (!points) decoded.set(output, (points = decodePoints(data.outputs[output]!)));
    return points;
  };
  let points = pointsOf(0);
  let projection: Projection = 'umap';

  const map = new ImageMap(data.images, (point, byKey) => choose(point, byKey));
  const choose = (point: number | undefined, byKey: boolean): void => {
    map.select(point);
    showPanel(data.images, points, point, (next) => choose(next, true));
    if (point === undefined) byId('live').textContent = 'No image is chosen.';
    if (byKey) byId('panel').querySelector('button')?.focus();
  };
  byId('panel').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') map.focus();
  });

  const showOnMap = (point: number): void => {
    byId('map-section').scrollIntoView({ block: 'start' });
    choose(point, true);
  };
  const setProjection = (wanted: Projection): void => {
    projection = wanted;
    press('projection', wanted);
    byId('map-note').textContent = wanted === 'pca' ? points.pcaNote : points.umapNote;
  };
  onPress('projection', (value) => {
    if (value === projection) return;
    setProjection(value as Projection);
    map.project(projection);
  });
  const setMarks = (marks: string): void => {
    press('marks', marks);
    map.drawPictures(marks === 'pictures');
  };
  onPress('marks', setMarks);
  onPress('zoom', (value) => map.zoom(value as 'in' | 'out' | 'reset'));

  const showOutput = (output: number): void => {
    points = pointsOf(output);
    const umap = document.querySelector<HTMLButtonElement>('[data-projection="umap"]')!;
    umap.disabled = !points.umap;
    umap.title = points.umap ? '' : points.umapNote;
    setProjection(points.umap ? projection : 'pca');
    map.show(points, projection);
    // An example of what the panel shows.
    choose(points.count > 0 ? 0 : undefined, false);
    showDuplicates(data.images, points, showOnMap);
    for (const block of document.querySelectorAll<HTMLElement>('[data-output]'))
      block.hidden = block.dataset['output'] !== String(output);
  };
  const selector = document.querySelector<HTMLSelectElement>('#output');
  selector?.addEventListener('change', () => showOutput(Number(selector.value)));
  startLegend(data, (folder) => map.highlight(folder));
  const hasPictures = data.images.thumbnails.some((thumbnail) => thumbnail !== null);
  document.querySelector<HTMLButtonElement>('[data-marks="pictures"]')!.disabled = !hasPictures;
  setMarks(hasPictures ? 'pictures' : 'dots');
  showOutput(0);
  if (data.server)
    startSearch(data.server, {
      output: () => points.key,
      showerOf: (row) => {
        const point = points.members.indexOf(data.images.rows.indexOf(row));
        return point === -1 ? undefined : () => showOnMap(point);
      },
    });
  startTheme(() => map.recolour());
}

/** A button per folder, which fades the other folders. */
function startLegend({ folders, images }: PageData, onHighlight: (folder: number | undefined) => void): void {
  if (!images.folders) return;
  let highlighted: number | undefined;
  const buttons = folders.map((name, folder) => {
    const count = images.folders!.filter((other) => other === folder).length;
    const press = (): void => {
      highlighted = highlighted === folder ? undefined : folder;
      buttons.forEach((other, i) => other.setAttribute('aria-pressed', String(i === highlighted)));
      onHighlight(highlighted);
    };
    const traits = { 'aria-pressed': false, '--swatch': `var(--folder-${folder})` };
    return makeChip(name, press, traits, make('span', 'muted', String(count)));
  });
  byId('legend').replaceChildren(...buttons);
}

start();

/** Makes the search field work, if the page has one. */
function startFailureSearch(): void {
  const field = document.querySelector<HTMLInputElement>('#failure-search');
  const count = document.querySelector('#failure-count');
  if (!field || !count) return;
  const groups = [...document.querySelectorAll<HTMLDetailsElement>('details.failures')].map((group) => ({
    group,
    wasOpen: group.open,
    items: [...group.querySelectorAll('li')].map((item) => ({
      item,
      text: `${item.textContent} ${group.querySelector('code')?.textContent}`.toLowerCase(),
    })),
  }));
  field.addEventListener('input', () => {
    const wanted = field.value.trim().toLowerCase();
    let found = 0;
    for (const { group, items, wasOpen } of groups) {
      let inGroup = 0;
      for (const { item, text } of items) {
        item.hidden = !text.includes(wanted);
        if (!item.hidden) inGroup++;
      }
      group.hidden = inGroup === 0;
      group.open = wanted === '' ? wasOpen : inGroup > 0;
      found += inGroup;
    }
    count.textContent = wanted === '' ? '' : `${found} listed failures match`;
  });
}

/** Shows a point and its neighbours; without a point, a hint. */
function showPanel(
  images: PageImages,
  points: Points,
  point: number | undefined,
  onChoose: (point: number) => void,
): void {
  const panel = byId('panel');
  if (point === undefined) {
    const hint = 'Choose an image on the map to see it here with its nearest images.';
    panel.replaceChildren(make('p', 'panel-hint muted', hint));
    return;
  }
  const image = points.members[point]!;
  const name = images.names[image]!;
  const size = images.sizes[image];
  const facts = [size ? `${size[0]} × ${size[1]} pixels` : '', `row ${images.rows[image]}`];
  const neighbours = points.neighboursOf(point).map(({ point: other, distance }) => {
    const otherName = images.names[points.members[other]!]!;
    const isSame = points.sameAs[other] === points.sameAs[point];
    const cosine = isSame ? 'identical' : formatCosine(distance);
    const label = `${otherName}, ${isSame ? 'identical features' : `cosine ${cosine}`}`;
    const tile = makeTile(images, points.members[other]!, label, cosine, () => onChoose(other));
    tile.dataset['point'] = String(other);
    return tile;
  });
  panel.replaceChildren(
    make('div', 'panel-picture', makePicture(images.thumbnails[image])),
    make('h3', 'panel-name', make('bdi', '', shortName(name))),
    ...(shortName(name) === name ? [] : [make('p', 'small', make('bdi', '', name))]),
    make('p', 'note', facts.filter((fact) => fact !== '').join(' · ')),
    ...(neighbours.length === 0
      ? []
      : [make('h4', '', `${neighbours.length} nearest, by cosine`), make('div', 'tiles', neighbours)]),
  );
  const count =
    neighbours.length === 1 ? 'Its nearest image is' : `Its ${neighbours.length} nearest images are`;
  const names = neighbours.map((tile) => tile.getAttribute('aria-label')).join('; ');
  byId('live').textContent =
    `${name}. ${neighbours.length === 0 ? 'It is the only one.' : `${count}: ${names}.`}`;
}
