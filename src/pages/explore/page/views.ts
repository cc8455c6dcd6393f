/** What one node gives for one photo, in one of four ways. */
import { decodeFloats } from '../../../html/browser/decode-numbers.js';
import { make } from '../../../html/browser/elements.js';
import { formatCount } from '../../../html/numbers.js';
import type { PageAttention, PageFeatures, PageHeat, PagePhoto, PageStatistics } from './data.js';
import { drawColours, drawGrid, drawHeat, drawScale, drawVector, formatNumber } from './drawing.js';
import { formatShare } from './format.js';
import type { Source } from './source.js';

/** How features are shown. */
export type Mode = 'maps' | 'colours' | 'attention' | 'heat';

export const MODES: Readonly<Record<Mode, string>> = {
  maps: 'Maps',
  colours: 'Colours',
  attention: 'Attention',
  heat: 'Grad-CAM',
};

/** What is shown. */
export interface View {
  readonly mode: Mode;
  /** The name to ask for; of attention, the softmax. */
  readonly request: string;
  /** What a person reads. */
  readonly title: string;
  readonly photo: PagePhoto;
  /** The class of a heat map; empty for the predicted one. */
  readonly target: string;
}

/** Makes the figure of a view. */
export async function makeView(source: Source, view: View): Promise<HTMLElement> {
  const { mode, request: node, photo } = view;
  const fields = { node, photo: photo.id };
  const title = make('p', 'view-title', make('bdi', '', view.title), make('span', '', ` · ${photo.name}`));
  const makeBody = { maps: makeMaps, colours: makeColours, attention: makeAttention, heat: makeHeat }[mode];
  const body = await makeBody(source, fields, view).catch((error: unknown) => [
    make('p', 'note bad', String(error)),
  ]);
  return make('div', 'view', title, ...body);
}

type Fields = Readonly<Record<string, string>>;

async function makeMaps(source: Source, fields: Fields): Promise<HTMLElement[]> {
  const outcome = await source.ask<PageFeatures>('features', fields);
  if ('problem' in outcome) return [make('p', 'note bad', outcome.problem)];
  const { maps, vector, notes, statistics, dims } = outcome.value;
  const value = make('p', 'value note', ' ');
  const shape = make('p', 'note', `[${dims.join(', ')}] ${outcome.value.dtype}`);
  const picture = maps
    ? [drawGrid(maps, 'channel', (text) => (value.textContent = text)), value, drawScale('map')]
    : vector === null
      ? [make('p', 'note', 'It is neither a map nor a short vector: only its figures are shown.')]
      : [drawVector(decodeFloats(vector))];
  return [shape, ...picture, ...notes.map((note) => make('p', 'note', note)), makeFigures(statistics)];
}

async function makeColours(source: Source, fields: Fields, { photo }: View): Promise<HTMLElement[]> {
  const outcome = await source.ask<PageFeatures>('features', fields);
  if ('problem' in outcome) return [make('p', 'note bad', outcome.problem)];
  const { colours, statistics } = outcome.value;
  if (!colours)
    return [make('p', 'note', 'Colours need a map with three channels or more.'), makeFigures(statistics)];
  const note =
    'The first three principal components of the channels, as red, green and blue: places of one colour are alike.';
  return [
    make('div', 'pair', drawColours(colours), makePhoto(photo)),
    make('p', 'note', note),
    makeFigures(statistics),
  ];
}

async function makeAttention(source: Source, fields: Fields, { photo }: View): Promise<HTMLElement[]> {
  const outcome = await source.ask<PageAttention>('attention', fields);
  if ('problem' in outcome) return [make('p', 'note bad', outcome.problem)];
  const value = make('p', 'value note', ' ');
  const note = `Where ${outcome.value.from} looks, head by head.`;
  const grid = drawGrid(outcome.value, 'head', (text) => (value.textContent = text));
  return [make('div', 'pair', makePhoto(photo)), make('p', 'note', note), grid, value, drawScale('map')];
}

async function makeHeat(source: Source, fields: Fields, { photo, target }: View): Promise<HTMLElement[]> {
  const outcome = await source.ask<PageHeat>('heat', target === '' ? fields : { ...fields, class: target });
  if ('problem' in outcome) return [make('p', 'note bad', outcome.problem)];
  const { layer, classIndex, label, score, about } = outcome.value;
  const note = make(
    'p',
    'note',
    'Grad-CAM of ',
    make('bdi', '', layer),
    ': where the score of ',
    make('strong', '', label ?? `class ${classIndex}`),
    ` (${formatNumber(score)}) comes from. ${about}`,
  );
  return [make('div', 'pair', drawHeat(outcome.value, photo), makePhoto(photo)), note, drawScale('heat')];
}

function makePhoto({ picture, name }: PagePhoto): HTMLImageElement {
  const image = make('img', 'photo');
  image.src = picture;
  image.alt = name;
  return image;
}

function makeFigures(statistics: PageStatistics): HTMLElement {
  const { count, mean, std, least, largest, zeros, notFinite, channels, dead } = statistics;
  const figures: readonly (readonly [string, string, boolean?])[] = [
    ['mean', formatNumber(mean)],
    ['deviation', formatNumber(std)],
    ['range', `${formatNumber(least)} … ${formatNumber(largest)}`],
    ['zeros', formatShare(count === 0 ? 0 : zeros / count)],
    ...(dead === null
      ? []
      : [['dead channels', `${formatCount(dead)} of ${formatCount(channels!)}`, dead > 0] as const]),
    ['NaN or infinite', formatCount(notFinite), notFinite > 0],
  ];
  const rows = figures.map(([name, text, isBad]) =>
    make('div', isBad === true ? 'bad' : '', make('dt', '', name), make('dd', '', text)),
  );
  return make('dl', 'figures', ...rows);
}
