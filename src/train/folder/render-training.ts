/** A training → one page to look at: its curves, its settings and its classes. */
import { shown } from '../../base/printable.js';
import { packageVersion } from '../../base/package.js';
import {
  renderColumns,
  renderNumbers,
  renderProblems,
  renderSection,
  renderTable,
} from '../../html/components.js';
import { readPageFiles, renderPage } from '../../html/document.js';
import { factsOf } from '../../html/facts.js';
import { markup, type Markup } from '../../html/html.js';
import { formatCount, formatSeconds, formatShare, formatValue } from '../../html/numbers.js';
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
  readonly settings: Readonly<Record<string, unknown>>;
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
  const counts = classes.map((one) => [one.name, formatCount(one.training), formatCount(one.heldOut)]);
  const main = markup`${renderFigures(training)}
${renderSection('curves', 'Curves', markup`<div class="sides grid">${renderCurves(epochs)}</div>${renderEpochs(training)}`)}
${renderSection('classes', 'Classes', renderColumns('Images by class', ['class', 'training', 'held out'], counts))}
${renderSection('settings', 'Settings', renderTable(factsOf(training.settings)))}
${renderProblems('Images that could not be read', training.failures)}`;
  const page = renderPage({
    kind: 'train',
    title: shown(title),
    subtitle: markup`${formatCount(classes.length)} classes · ${formatCount(epochs.length)} epochs`,
    controls: null,
    skip: { target: 'curves-section', text: 'Skip to the curves' },
    main,
    notes: [],
    data: {},
    version: packageVersion(),
    files: await readPageFiles('train'),
  });
  return Buffer.from(page);
}

function renderFigures({ best, epochs }: TrainingPage): Markup {
  const { training, heldOut, epoch } = best;
  const seconds = epochs.reduce((sum, one) => sum + one.seconds, 0);
  const rows = epochs.reduce((sum, one) => sum + one.training.rows, 0);
  return renderNumbers([
    [heldOut ? 'held-out accuracy' : 'training accuracy', formatShare((heldOut ?? training).accuracy)],
    ['best epoch', String(epoch)],
    ['images', formatCount(training.rows + (heldOut?.rows ?? 0))],
    ['images per second', (rows / seconds).toFixed(1)],
    ['seconds of steps', formatSeconds(seconds)],
  ]);
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
      formatShare,
    ),
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
