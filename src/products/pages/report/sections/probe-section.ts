/** A probe on the page: its classes, confusions and suspected labels. A reader needs no script for it. */
import { shown } from '../../../../base/printable.js';
import type { Probe, ProbeResults } from '../../../features/probe/probe.js';
import { markup, type Markup } from '../../../../base/html/html.js';
import { formatCount, formatShare, formatShareOf } from '../../../../base/html/numbers.js';
import {
  renderColumns,
  renderConfusion,
  renderPictured,
  renderSection,
} from '../../../../base/html/components.js';
import { nameOf } from '../collect/collect-inputs.js';

/** A suspected label and the picture of its image. */
export interface PicturedSuspect {
  readonly suspect: ProbeResults['suspects'][number];
  /** WebP in base64; null if the image has no picture. */
  readonly picture: string | null;
}

/** What the section shows. */
export interface ProbePart {
  readonly probe: Probe;
  readonly suspects: readonly PicturedSuspect[];
}

/** Renders the section. */
export function renderProbe({ probe, suspects }: ProbePart): Markup {
  const { kind, strength, results, classes } = probe;
  const what =
    strength === null ? markup`<code>${kind}</code>` : markup`<code>${kind}</code>, strength ${strength}`;
  const body = results
    ? markup`<p class="lead">${what}: ${formatShareOf(results.accuracy, results.rows)} of ${formatCount(results.rows)} images are classified right by a classifier that has not seen them (${results.folds} folds); balanced over ${formatCount(classes.length)} classes ${formatShare(results.balancedAccuracy)}.${describeCalibration(results)}</p>
  ${renderClasses(results)}
  ${renderConfusion(
    results.classes.map(({ label }) => label),
    results.confusion,
  )}
  ${renderSuspects(results, suspects)}`
    : markup`<p class="note">The probe was trained without held-out folds, so it has no results.</p>`;
  return renderSection('probe', 'Labels', body);
}

function describeCalibration({ calibration }: ProbeResults): string {
  if (!calibration) return '';
  return ` Probabilities are off by ${formatShare(calibration.error)} on average (expected calibration error).`;
}

function renderClasses({ classes }: ProbeResults): Markup {
  const rows = classes.map(({ label, support, precision, recall, f1 }) => [
    label,
    formatCount(support),
    precision?.toFixed(3) ?? '–',
    recall.toFixed(3),
    f1.toFixed(3),
  ]);
  return renderColumns('Classes', ['label', 'images', 'precision', 'recall', 'F1'], rows);
}

function renderSuspects({ suspectCount }: ProbeResults, suspects: readonly PicturedSuspect[]): Markup {
  if (suspectCount === 0)
    return markup`<h3>Suspected labels</h3><p class="note">Every image is classified as its label says.</p>`;
  const more = suspectCount - suspects.length;
  return markup`<h3>Suspected labels</h3>
  <p class="lead">${formatCount(suspectCount)} images are classified as another class than their label. The clearest come first: wrong labels gather at the top, hard images follow.</p>
  <div class="suspects grid">${suspects.map(renderSuspect)}</div>
  ${more > 0 ? markup`<p class="note">and ${formatCount(more)} more; the probe’s file lists up to 1000</p>` : null}`;
}

function renderSuspect({ suspect, picture }: PicturedSuspect): Markup {
  const { given, suggested, givenScore, suggestedScore } = suspect;
  const about = markup`<bdi>labelled ${shown(given)}</bdi><span>${formatScore(givenScore)}</span><bdi class="bad">rather ${shown(suggested)}</bdi><span>${formatScore(suggestedScore)}</span>`;
  return renderPictured(picture, nameOf(suspect), about);
}

/** Two decimals; one digit of smaller scores, whose ratio to others counts. A class without other images has no score: files hold null. */
function formatScore(score: number): string {
  if (!Number.isFinite(score)) return '–';
  return score !== 0 && Math.abs(score) < 0.005 ? score.toPrecision(1) : score.toFixed(2);
}
