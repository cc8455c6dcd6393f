/** Puts the page together. */
import type { PageData } from './data.js';
import { showDuplicates } from './duplicates.js';
import { byId, make } from './elements.js';
import { startFailureSearch } from './failures.js';
import { ImageMap, type Projection } from './map.js';
import { showPanel } from './panel.js';
import { decodePoints, type Points } from './points.js';
import { startTheme } from './theme.js';

function start(): void {
  const data = JSON.parse(byId('data').textContent) as PageData;
  const decoded = new Map<number, Points>();
  const pointsOf = (output: number): Points => {
    let points = decoded.get(output);
    if (!points) decoded.set(output, (points = decodePoints(data.outputs[output]!)));
    return points;
  };
  startFailureSearch();
  if (data.outputs.length === 0 || data.images.names.length === 0) {
    startTheme(() => undefined);
    byId('map-section').hidden = true;
    byId('duplicates-section').hidden = true;
    return;
  }
  let points = pointsOf(0);
  let projection: Projection = 'pca';

  const map = new ImageMap(data.images, (point, byKey) => choose(point, byKey));
  const choose = (point: number | undefined, byKey: boolean): void => {
    map.select(point);
    showPanel(data.images, points, point, (next) => choose(next, true));
    if (point === undefined) byId('live').textContent = 'Nothing is chosen.';
    if (byKey) byId('panel').querySelector('button')?.focus();
  };
  byId('panel').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') map.focus();
  });

  const press = (name: string, value: string): void => {
    for (const button of document.querySelectorAll<HTMLButtonElement>(`[data-${name}]`))
      button.setAttribute('aria-pressed', String(button.dataset[name] === value));
  };
  const showNote = (): void => {
    byId('map-note').textContent = projection === 'pca' ? points.pcaNote : points.umapNote;
  };
  const setProjection = (wanted: Projection): void => {
    projection = wanted;
    press('projection', wanted);
    showNote();
  };
  onPress('projection', (value) => {
    if (value === projection) return;
    setProjection(value as Projection);
    map.project(projection);
  });
  onPress('marks', (value) => {
    press('marks', value);
    map.drawPictures(value === 'pictures');
  });
  onPress('zoom', (value) => map.zoom(value as 'in' | 'out' | 'reset'));

  const showOutput = (output: number): void => {
    points = pointsOf(output);
    const umap = document.querySelector<HTMLButtonElement>('[data-projection="umap"]')!;
    umap.disabled = !points.umap;
    umap.title = points.umap ? '' : points.umapNote;
    setProjection(points.umap ? projection : 'pca');
    map.show(points, projection);
    showPanel(data.images, points, undefined, () => undefined);
    showDuplicates(data.images, points, (point) => {
      byId('map-section').scrollIntoView({ block: 'start' });
      choose(point, true);
    });
    for (const block of document.querySelectorAll<HTMLElement>('[data-output]'))
      block.hidden = block.dataset['output'] !== String(output);
  };
  const selector = document.querySelector<HTMLSelectElement>('#output');
  selector?.addEventListener('change', () => showOutput(Number(selector.value)));
  startLegend(data, (folder) => map.highlight(folder));
  if (data.images.thumbnails.every((thumbnail) => thumbnail === null))
    document.querySelector<HTMLButtonElement>('[data-marks="pictures"]')!.disabled = true;
  showOutput(0);
  startTheme(() => map.recolour());
}

/** Calls back with the value of the button that is pressed. */
function onPress(name: string, act: (value: string) => void): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>(`[data-${name}]`))
    button.addEventListener('click', () => act(button.dataset[name]!));
}

/** A button per folder that lets the others step back. */
function startLegend({ folders, images }: PageData, onHighlight: (folder: number | undefined) => void): void {
  if (!images.folders) return;
  let highlighted: number | undefined;
  const buttons = folders.map((name, folder) => {
    const count = images.folders!.filter((other) => other === folder).length;
    const swatch = make('span', `swatch swatch-${folder}`);
    const button = make(
      'button',
      'chip',
      swatch,
      make('bdi', '', name),
      make('span', 'count', String(count)),
    );
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
