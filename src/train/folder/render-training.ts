/** A training → one page to look at: its curves, its settings and its classes. */
import { shown } from '../../base/printable.js';
import { packageVersion } from '../../base/package.js';
import { readPageFiles, renderPage } from '../../html/document.js';
import { markup, type Markup } from '../../html/html.js';
import { formatCount, formatSeconds, formatValue } from '../../html/numbers.js';
import { renderCurve, type Curve } from './render-curve.js';
import type { TrainFailure } from './training-photos.js';
import type { EpochRecord } from './training-records.js';

/** What the page shows. */
export interface TrainingPage {
  /** Name of the written file. */
  readonly title: string;
  readonly classes: readonly ClassCount[];
  readonly epochs: readonly EpochRecord[];
  readonly best: EpochRecord;
  /** Names and texts of the settings. */
  readonly settings: readonly (readonly [name: string, text: string])[];
  readonly failures: readonly TrainFailure[];
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
  const main = markup`${renderNumbers(training)}
<section id="curves" aria-labelledby="curves-title">
  <h2 id="curves-title">Curves</h2>
  <div class="sides">${renderCurves(epochs)}</div>
  ${renderEpochs(training)}
</section>
<section aria-labelledby="classes-title">
  <h2 id="classes-title">Classes</h2>
  <table class="epochs"><thead><tr><th scope="col">class</th><th scope="col">training</th><th scope="col">held out</th></tr></thead>
  <tbody>${classes.map((one) => markup`<tr><th scope="row"><bdi>${shown(one.name)}</bdi></th><td>${formatCount(one.training)}</td><td>${formatCount(one.heldOut)}</td></tr>`)}</tbody></table>
</section>
<section aria-labelledby="settings-title">
  <h2 id="settings-title">Settings</h2>
  <dl class="table">${training.settings.map(([name, text]) => markup`<div><dt>${name}</dt><dd><bdi>${shown(text)}</bdi></dd></div>`)}</dl>
</section>
${renderFailures(training.failures)}`;
  const page = renderPage({
    kind: 'train',
    title: shown(title),
    subtitle: markup`${formatCount(classes.length)} classes · ${formatCount(epochs.length)} epochs`,
    controls: null,
    skip: { target: 'curves', text: 'Skip to the curves' },
    main,
    notes: [],
    data: {},
    version: packageVersion(),
    files: await readPageFiles('train'),
  });
  return Buffer.from(page);
}

function renderNumbers({ best, epochs }: TrainingPage): Markup {
  const { training, heldOut, epoch } = best;
  const seconds = epochs.reduce((sum, one) => sum + one.seconds, 0);
  const rows = epochs.reduce((sum, one) => sum + one.training.rows, 0);
  const numbers = [
    [heldOut ? 'held-out accuracy' : 'training accuracy', formatAccuracy((heldOut ?? training).accuracy)],
    ['best epoch', String(epoch)],
    ['images', formatCount(training.rows + (heldOut?.rows ?? 0))],
    ['images per second', (rows / seconds).toFixed(1)],
    ['seconds of steps', formatSeconds(seconds)],
  ] as const;
  return markup`<dl class="numbers">${numbers.map(([name, text]) => markup`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>`;
}

function renderCurves(epochs: readonly EpochRecord[]): Markup[] {
  const curvesOf = (pick: (score: NonNullable<EpochRecord['heldOut']>) => number): Curve[] => [
    { name: 'training', values: epochs.map(({ training }) => pick(training)) },
    { name: 'held-out', values: epochs.flatMap(({ heldOut }) => (heldOut ? [pick(heldOut)] : [])) },
  ];
  const lossCurves = curvesOf(({ loss }) => loss);
  const highest = Math.max(...lossCurves.flatMap(({ values }) => values));
  return [
    renderCurve('Loss', lossCurves, highest, formatValue),
    renderCurve(
      'Accuracy',
      curvesOf(({ accuracy }) => accuracy),
      1,
      formatAccuracy,
    ),
  ];
}

function renderEpochs({ epochs, best }: TrainingPage): Markup {
  const names = [
    'epoch',
    'loss',
    'accuracy',
    'held-out loss',
    'held-out accuracy',
    'learning rate',
    'images/s',
  ];
  const rows = epochs.map((record) => {
    const { epoch, training, heldOut, lr, seconds } = record;
    const cells = [
      formatValue(training.loss),
      formatAccuracy(training.accuracy),
      heldOut ? formatValue(heldOut.loss) : '–',
      heldOut ? formatAccuracy(heldOut.accuracy) : '–',
      formatValue(lr),
      (training.rows / seconds).toFixed(1),
    ];
    return markup`<tr class="${record === best ? 'best' : ''}"><th scope="row">${epoch}</th>${cells.map((cell) => markup`<td>${cell}</td>`)}</tr>`;
  });
  return markup`<table class="epochs"><thead><tr>${names.map((name) => markup`<th scope="col">${name}</th>`)}</tr></thead><tbody>${rows}</tbody></table>`;
}

function renderFailures(failures: readonly TrainFailure[]): Markup | null {
  if (failures.length === 0) return null;
  const rows = failures.map(
    ({ path, message }) =>
      markup`<li><bdi>${shown(path)}</bdi> <span class="note">${shown(message)}</span></li>`,
  );
  return markup`<section aria-labelledby="failures-title"><h2 id="failures-title">Images that could not be read</h2><ul>${rows}</ul></section>`;
}

/** `93.3 %`. */
export function formatAccuracy(accuracy: number): string {
  return `${(100 * accuracy).toFixed(1)} %`;
}
