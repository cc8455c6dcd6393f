/** Starts the page: connects the map, the panel, the controls and the lists. */
import { byId, make, onPress, press, readPageData } from '../../../html/browser/elements.js';
import { startTheme } from '../../../html/browser/theme.js';
import type { PageData } from './data.js';
import { showDuplicates } from './duplicates.js';
import { startFailureSearch } from './failures.js';
import { ImageMap, type Projection } from './map.js';
import { showPanel } from './panel.js';
import { decodePoints, type Points } from './points.js';
import { startSearch } from './search-box.js';

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
    const swatch = make('span', 'swatch');
    swatch.style.color = `var(--folder-${folder})`;
    const label = [make('bdi', '', name), make('span', 'count', String(count))];
    const button = make('button', 'chip', swatch, ...label);
    button.type = 'button';
    button.setAttribute('aria-pressed', 'false');
    button.addEventListener('click', () => {
      highlighted = highlighted === folder ? undefined : folder;
      buttons.forEach((other, i) => other.setAttribute('aria-pressed', String(i === highlighted)));
      onHighlight(highlighted);
    });
    return button;
  });
  byId('legend').replaceChildren(...buttons);
}

start();
