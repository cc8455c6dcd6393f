/** A training → one page to look at: its curves, its settings and its classes. */
import { shown } from '../../../base/printable.js';
import {
  renderColumns,
  renderConfusion,
  renderNumbers,
  renderPictured,
  renderProblems,
  renderSection,
  renderTable,
} from '../../../base/html/components.js';
import { renderPage } from '../../../base/html/document.js';
import { factsOf } from '../../../base/html/facts.js';
import { markup, type Markup } from '../../../base/html/html.js';
import {
  formatCount,
  formatSeconds,
  formatShare,
  formatShareOf,
  formatValue,
} from '../../../base/html/numbers.js';
import type { Judgement } from './judge-photos.js';
import type { TrainFailure } from './training-photos.js';
import type { EpochRecord } from './training-records.js';

/** What the page shows. */
interface TrainingPage {
  /** Name of the written file. */
  readonly title: string;
  readonly classes: readonly ClassCount[];
  readonly epochs: readonly EpochRecord[];
  readonly best: EpochRecord;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly failures: readonly TrainFailure[];
  /** Of the held-out images; null if nothing is held out. */
  readonly judgement: Judgement | null;
}

/** A class and the number of its images. */
export interface ClassCount {
  readonly name: string;
  readonly training: number;
  readonly heldOut: number;
}

/** Writes the page. */
export async function renderTraining(training: TrainingPage): Promise<Uint8Array> {
  const { title, classes, epochs } = training;
  const counts = classes.map((one) => [one.name, formatCount(one.training), formatCount(one.heldOut)]);
  const main = markup`<p class="lead">${describeBest(training)}</p>
${renderFigures(training)}
${renderSection('curves', 'Curves', markup`<div class="sides grid">${renderCurves(epochs)}</div>${renderEpochs(training)}`)}
${renderSection('classes', 'Classes', [renderColumns('Images by class', ['class', 'training', 'held out'], counts), ...renderJudgement(training)])}
${renderSection('settings', 'Settings', renderTable(factsOf(training.settings)))}
${renderProblems('Images that could not be read', training.failures)}`;
  return renderPage({
    kind: 'train',
    title: shown(title),
    subtitle: markup`${formatCount(classes.length)} classes · ${formatCount(epochs.length)} epochs`,
    skip: { target: 'curves-section', text: 'Skip to the curves' },
    main,
  });
}

function renderFigures({ best, epochs }: TrainingPage): Markup {
  const { training, heldOut, epoch } = best;
  const seconds = epochs.reduce((sum, one) => sum + one.seconds, 0);
  const rows = epochs.reduce((sum, one) => sum + one.training.rows, 0);
  return renderNumbers([
    [heldOut ? 'held-out accuracy' : 'training accuracy', formatShare((heldOut ?? training).accuracy)],
    ['best epoch', String(epoch)],
    ['images trained on', formatCount(training.rows)],
    ...(heldOut ? [['images held out', formatCount(heldOut.rows)] as const] : []),
    ['images per second', (rows / seconds).toFixed(1)],
    ['seconds of steps', formatSeconds(seconds)],
  ]);
}

/** What came of it, in a sentence. */
function describeBest({ best, epochs }: TrainingPage): string {
  const { heldOut, training, epoch } = best;
  const of = `Epoch ${epoch} of ${epochs.length} is the best`;
  if (!heldOut)
    return `${of}: ${formatShare(training.accuracy)} of the images that it was trained on are classified right. No image was held out.`;
  const { accuracy, rows } = heldOut;
  return `${of}: ${formatShareOf(accuracy, rows)} of ${formatCount(rows)} held-out images are classified right. The brackets hold the 95 % interval: the fewer images, the wider.`;
}

/** What became of the held-out images, class by class, and those that went wrong. */
function renderJudgement({ judgement, classes }: TrainingPage): Markup[] {
  if (!judgement) return [];
  const names = classes.map(({ name }) => name);
  const wrong = judgement.wrong.map(({ path, label, predicted, probabilities, picture }) => {
    const [sure, own] = probabilities.map((share) => formatShare(share));
    const about = markup`<bdi class="bad">predicted ${shown(names[predicted]!)}</bdi><span>${sure!}</span><bdi>it is ${shown(names[label]!)}</bdi><span>${own!}</span>`;
    return renderPictured(picture, shown(path), about);
  });
  return [
    renderConfusion(names, judgement.confusion),
    wrong.length === 0
      ? markup`<p class="note">Every held-out image gets its own class.</p>`
      : markup`<h3>Taken for another class</h3><p class="note">Those that the model is surest of, with the probabilities of both classes.</p><div class="suspects grid">${wrong}</div>`,
  ];
}

function renderCurves(epochs: readonly EpochRecord[]): Markup[] {
  const curvesOf = (pick: (score: NonNullable<EpochRecord['heldOut']>) => number): Curve[] => [
    { name: 'training', values: epochs.map(({ training }) => pick(training)) },
    { name: 'held-out', values: epochs.flatMap(({ heldOut }) => (heldOut ? [pick(heldOut)] : [])) },
  ];
  const lossCurves = curvesOf(({ loss }) => loss);
  const accuracyCurves = curvesOf(({ accuracy }) => accuracy);
  const highest = Math.max(...lossCurves.flatMap(({ values }) => values));
  return [
    renderCurve('Loss', lossCurves, highest, formatValue),
    renderCurve('Accuracy', accuracyCurves, 1, formatShare),
  ];
}

function renderEpochs({ epochs, best }: TrainingPage): Markup {
  const rows = epochs.map((record) => {
    const { epoch, training, heldOut, lr, seconds } = record;
    return [
      record === best ? `${epoch} (best)` : String(epoch),
      formatValue(training.loss),
      formatShare(training.accuracy),
      heldOut ? formatValue(heldOut.loss) : '–',
      heldOut ? formatShare(heldOut.accuracy) : '–',
      formatValue(lr),
      (training.rows / seconds).toFixed(1),
    ];
  });
  const head = 'epoch,loss,accuracy,held-out loss,held-out accuracy,learning rate,images/s';
  return renderColumns('Epochs', head.split(','), rows);
}

/** The values of one curve, epoch by epoch. */
interface Curve {
  readonly name: 'training' | 'held-out';
  readonly values: readonly number[];
}

const WIDTH = 420;
const HEIGHT = 180;
const LINES = 4;

/** Draws curves from 0 to a highest value. */
function renderCurve(
  title: string,
  curves: readonly Curve[],
  highest: number,
  format: (value: number) => string,
): Markup {
  const top = LINES * roundStep(highest > 0 ? highest / LINES : 1);
  const drawn = curves.filter(({ values }) => values.length > 0);
  const epochs = Math.max(...drawn.map(({ values }) => values.length));
  const grid = Array.from({ length: LINES + 1 }, (_, i) => {
    const y = (HEIGHT * i) / LINES;
    return markup`<line class="grid-line" x1="0" x2="${WIDTH}" y1="${y}" y2="${y}"/><text x="${WIDTH + 6}" y="${y + 4}">${format(top * (1 - i / LINES))}</text>`;
  });
  const lines = drawn.map((curve) => renderLine(curve, epochs, top, format));
  const words = drawn.map(
    ({ name, values }) => `${name} from ${format(values[0]!)} to ${format(values.at(-1)!)}`,
  );
  const label = `${title} over ${epochs} epochs: ${words.join('; ')}`;
  return markup`<figure class="curve">
    <figcaption><h3>${title}</h3></figcaption>
    <svg viewBox="-6 -10 ${WIDTH + 60} ${HEIGHT + 36}" role="img" aria-label="${label}">${grid}${lines}
    <text x="0" y="${HEIGHT + 20}">epoch 1</text><text x="${WIDTH}" y="${HEIGHT + 20}" text-anchor="end">${epochs}</text></svg>
    <p class="key note">${drawn.map(({ name }) => markup`<span class="${name}">${name === 'training' ? '┄' : '━'} ${name}</span>`)}</p>
  </figure>`;
}

/** The next of 1, 2, 2.5, 5 and 10 times a power of ten. */
function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  return power * ([1, 2, 2.5, 5].find((one) => one * power >= step * (1 - 1e-9)) ?? 10);
}

function renderLine(
  { name, values }: Curve,
  epochs: number,
  top: number,
  format: (value: number) => string,
): Markup {
  const places = values.map((value, i) => {
    const x = epochs === 1 ? WIDTH / 2 : (WIDTH * i) / (epochs - 1);
    return { x: x.toFixed(1), y: (HEIGHT * (1 - value / top)).toFixed(1), value };
  });
  const points = places.map(({ x, y }) => `${x},${y}`).join(' ');
  const dots = places.map(
    ({ x, y, value }, i) =>
      markup`<circle cx="${x}" cy="${y}" r="2.5"><title>epoch ${i + 1}: ${format(value)}</title></circle>`,
  );
  return markup`<g class="${name}"><polyline points="${points}"/>${dots}</g>`;
}
