/** Starts the page: connects the map, the panel, the controls and the lists. */
import { byId, make, onPress, press, readPageData } from '../../../../base/html/browser/elements.js';
import { startTheme } from '../../../../base/html/browser/theme.js';
import type { PageColumn, PageData } from './data.js';
import { showDuplicates } from './duplicates.js';
import { showFilter } from './filter.js';
import { showLegend } from './legend.js';
import type { Emphasis } from './emphasis.js';
import { ImageMap, type Projection } from './map.js';
import { decodePoints, formatCosine, type Points } from './points.js';
import { startSearch } from './search-box.js';
import { Selection } from './selection.js';
import { formatCount } from '../../../../base/html/numbers.js';
import { makePictureOf, makeTile, shortName, type ShownImages } from './tiles.js';

/** On maps of more images, a picture would stand for too many. */
const MOST_FOR_PICTURES = 3000;

function start(): void {
  let data = readPageData<PageData>();
  const images: ShownImages = { ...data.images, key: data.server?.key ?? null };
  startFailureSearch();
  if (data.outputs.length === 0 || images.names.length === 0) {
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

  const map = new ImageMap(images, {
    onSelect: (point, byKey) => choose(point, byKey),
    onGather: (gathered) => selection.show(gathered),
  });
  const choose = (point: number | undefined, byKey: boolean): void => {
    map.select(point);
    showPanel(images, points, point, (next) => choose(next, true));
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

  const selection = new Selection(images, {
    onSelect: (gathered) => map.emphasise({ gathered }),
    onChoose: (point) => choose(point, true),
    onSaved: (column) => {
      const others = data.columns.filter(({ name }) => name !== column.name);
      data = { ...data, columns: [...others, column] };
      showColumns(column);
    },
    onRemoved: (removed) => {
      data = { ...data, columns: data.columns.filter(({ name }) => name !== removed) };
      showColumns();
    },
  });
  /** Fills the choices of a colour and of a filter. */
  const showColumns = (chosen?: PageColumn): void => {
    const legend = {
      onColour: (colouring: Emphasis['colouring']) => map.emphasise({ colouring }),
      onIsolate: (isolated: Emphasis['isolated']) => map.emphasise({ isolated }),
    };
    showLegend(data, points, legend, chosen);
    showFilter(data, points, {
      onFilter: (kept) => {
        map.emphasise({ kept });
        selection.kept = kept;
      },
      onChange: () => selection.clear(),
    });
  };
  onPress('gather', () => {
    const button = document.querySelector('[data-gather]')!;
    const isOn = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(isOn));
    byId('map').classList.toggle('gathering', isOn);
  });

  const showOutput = (output: number): void => {
    points = pointsOf(output);
    const umap = document.querySelector<HTMLButtonElement>('[data-projection="umap"]')!;
    umap.disabled = !points.umap;
    umap.title = points.umap ? '' : points.umapNote;
    setProjection(points.umap ? projection : 'pca');
    map.emphasise({ colouring: undefined, kept: undefined });
    map.show(points, projection);
    showColumns();
    selection.start(points);
    // An example of what the panel shows.
    choose(points.count > 0 ? 0 : undefined, false);
    showDuplicates(images, points, showOnMap);
    for (const block of document.querySelectorAll<HTMLElement>('[data-output]'))
      block.hidden = block.dataset['output'] !== String(output);
  };
  const selector = document.querySelector<HTMLSelectElement>('#output');
  selector?.addEventListener('change', () => showOutput(Number(selector.value)));
  const hasPictures = Object.keys(images.thumbnails).length > 0;
  document.querySelector<HTMLButtonElement>('[data-marks="pictures"]')!.disabled = !hasPictures;
  setMarks(hasPictures && images.names.length <= MOST_FOR_PICTURES ? 'pictures' : 'dots');
  showOutput(0);
  if (data.server)
    startSearch(data.server, {
      output: () => points.key,
      showerOf: (row) => {
        const point = points.members.indexOf(images.rows.indexOf(row));
        return point === -1 ? undefined : () => showOnMap(point);
      },
    });
  startTheme(() => map.recolour());
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
  images: ShownImages,
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
    const isSame = point < points.compared && points.sameAs[other] === points.sameAs[point];
    const cosine = isSame ? 'identical' : formatCosine(distance);
    const label = `${otherName}, ${isSame ? 'identical features' : `cosine ${cosine}`}`;
    const tile = makeTile(images, points.members[other]!, label, cosine, () => onChoose(other));
    tile.dataset['point'] = String(other);
    return tile;
  });
  const among = points.compared < points.count ? ` of ${formatCount(points.compared)} compared images` : '';
  panel.replaceChildren(
    make('div', 'panel-picture', makePictureOf(images, image)),
    make(
      'div',
      '',
      make('h3', 'panel-name', make('bdi', '', shortName(name))),
      shortName(name) === name ? undefined : make('p', 'small', make('bdi', '', name)),
      make('p', 'note', facts.filter((fact) => fact !== '').join(' · ')),
    ),
    make(
      'div',
      '',
      neighbours.length === 0
        ? []
        : [
            make('h4', '', `${neighbours.length} nearest${among}, by cosine`),
            make('div', 'tiles', neighbours),
          ],
    ),
  );
  const count =
    neighbours.length === 1 ? 'Its nearest image is' : `Its ${neighbours.length} nearest images are`;
  const names = neighbours.map((tile) => tile.getAttribute('aria-label')).join('; ');
  byId('live').textContent =
    `${name}. ${neighbours.length === 0 ? 'It is the only one.' : `${count}: ${names}.`}`;
}
