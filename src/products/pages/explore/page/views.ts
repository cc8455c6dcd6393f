/** What one node gives for one photo, in one of four ways. */
import { decodeNumbers } from '../../../../base/html/browser/decode-numbers.js';
import { make, makeFact } from '../../../../base/html/browser/elements.js';
import { formatCount, formatValue } from '../../../../base/html/numbers.js';
import type { PageAttention, PageFeatures, PageHeat, PagePhoto, PageStatistics } from './data.js';
import { drawColours, drawGrid, drawHeat, drawScale, drawVector } from './drawing.js';
import { formatShare } from './format.js';
import { writeQuestion, type Source } from './source.js';

/** How features are shown. */
export type Mode = 'maps' | 'colours' | 'attention' | 'heat';

export const MODES: Readonly<Record<Mode, string>> = {
  maps: 'Maps',
  colours: 'Colours',
  heat: 'Grad-CAM',
  attention: 'Attention',
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

/** The question whose answer a mode shows. */
export function questionOf({ mode, request, photo, target }: View): string {
  const fields = { node: request, photo: photo.id };
  if (mode === 'attention') return writeQuestion(mode, fields);
  if (mode === 'heat') return writeQuestion(mode, target === '' ? fields : { ...fields, class: target });
  return writeQuestion('features', fields);
}

/** Makes the figure of a view. */
export async function makeView(source: Source, view: View): Promise<HTMLElement> {
  const { mode, photo, title } = view;
  const outcome = await source.ask(questionOf(view));
  const body =
    'problem' in outcome
      ? make('p', 'note bad', outcome.problem)
      : { maps: makeMaps, colours: makeColours, attention: makeAttention, heat: makeHeat }[mode](
          outcome.value as never,
          photo,
        );
  const heading = make(
    'p',
    'view-title clip',
    make('strong', '', make('bdi', '', title)),
    make('span', 'small', ` · ${photo.name}`),
  );
  return make('div', '', heading, body);
}

/** A sentence. */
export function note(text: string): HTMLElement {
  return make('p', 'note', text);
}

function makeMaps({ maps, vector, notes, statistics, dims, dtype }: PageFeatures): HTMLElement[] {
  const picture = maps
    ? [...drawGrid(maps, 'channel'), drawScale('map')]
    : vector === null
      ? [note('It is neither a map nor a short vector: only its figures are shown.')]
      : [drawVector(decodeNumbers(Float32Array, vector))];
  return [note(`[${dims.join(', ')}] ${dtype}`), ...picture, ...notes.map(note), makeFigures(statistics)];
}

function makeColours({ colours, mask, statistics }: PageFeatures, photo: PagePhoto): HTMLElement[] {
  if (mask) {
    const about = 'The class with the highest score at every place, in the colours of Pascal VOC.';
    return [makePair(drawColours(mask, about), photo), note(about), makeFigures(statistics)];
  }
  if (!colours) return [note('Colours need a map with three channels or more.'), makeFigures(statistics)];
  const about =
    'The first three principal components of the channels, as red, green and blue: places of one colour are alike.';
  return [makePair(drawColours(colours, about), photo), note(about), makeFigures(statistics)];
}

function makeAttention(attention: PageAttention, photo: PagePhoto): HTMLElement[] {
  const about = `Where ${attention.from} looks, head by head.`;
  return [makePair(undefined, photo), note(about), ...drawGrid(attention, 'head'), drawScale('map')];
}

function makeHeat(heat: PageHeat, photo: PagePhoto): HTMLElement[] {
  const { layer, classIndex, label, score, about } = heat;
  const of = make('strong', '', label ?? `class ${classIndex}`);
  const says = [': where the score of ', of, ` (${formatValue(score)}) comes from. ${about}`];
  return [
    makePair(drawHeat(heat, photo), photo),
    make('p', 'note', 'Grad-CAM of ', make('bdi', '', layer), says),
    drawScale('heat'),
  ];
}

/** A picture beside its photo. */
function makePair(picture: HTMLElement | undefined, { picture: src, name: alt }: PagePhoto): HTMLElement {
  return make('div', 'pair', picture, make('img', '', { src, alt }));
}

function makeFigures(statistics: PageStatistics): HTMLElement {
  const { count, mean, std, least, largest, zeros, notFinite, channels, dead } = statistics;
  const figures: readonly (readonly [string, string, boolean?])[] = [
    ['mean', formatValue(mean)],
    ['deviation', formatValue(std)],
    ['range', `${formatValue(least)} … ${formatValue(largest)}`],
    ['zeros', formatShare(count === 0 ? 0 : zeros / count)],
    ...(dead === null
      ? []
      : [['dead channels', `${formatCount(dead)} of ${formatCount(channels!)}`, dead > 0] as const]),
    ['NaN or infinite', formatCount(notFinite), notFinite > 0],
  ];
  const rows = figures.map(([name, text, isBad]) => makeFact(name, text, isBad ? 'bad' : ''));
  return make('dl', 'figures grid', rows);
}
