/** The results of a probe as text. */
import { counted, shown } from '../../../base/printable.js';
import type { Probe, ProbeResults } from '../../../products/features/probe/probe.js';
import { formatTable } from '../../terminal/table.js';

/** Confusions and suspects that are listed. */
const MOST_LISTED = 20;

/** Describes a probe: how good it is, class by class, what it confuses, and which labels it doubts. */
export function describeProbe(
  { kind, classes, strength, strengths, results }: Probe,
  columns: number | undefined,
): string {
  const what = `${kind}${strength === null ? '' : `, strength ${strength}`}, ${classes.length} classes`;
  if (results === null) return `${what}; no folds were held out, so there are no results\n`;
  const { accuracy, balancedAccuracy, folds, rows, calibration } = results;
  const lines = [
    `${what}, ${counted(rows, 'image')}, ${folds} held-out folds`,
    `accuracy ${formatShare(accuracy)}, balanced ${formatShare(balancedAccuracy)}`,
    ...(calibration
      ? [
          `calibration error ${calibration.error.toFixed(4)}, Brier score ${calibration.brier.toFixed(4)}, log loss ${calibration.logLoss.toFixed(4)}`,
        ]
      : []),
  ];
  const tried =
    strengths.length > 1
      ? [
          `\n${formatTable([['strength', 'accuracy'], ...strengths.map((one) => [String(one.strength), formatShare(one.accuracy)])], { columns, right: [0, 1] })}`,
        ]
      : [];
  return [
    `${lines.join('\n')}\n`,
    ...tried,
    classTable(results, columns),
    confusionTable(results, columns),
    suspectTable(results, columns),
  ].join('');
}

function classTable({ classes }: ProbeResults, columns: number | undefined): string {
  const rows = classes.map(({ label, support, precision, recall, f1 }) => [
    label,
    String(support),
    precision === null ? '-' : formatShare(precision),
    formatShare(recall),
    formatShare(f1),
  ]);
  return `\n${formatTable([['class', 'images', 'precision', 'recall', 'f1'], ...rows], { columns, right: [1, 2, 3, 4], names: [0], spare: [1, 2] })}`;
}

function confusionTable({ classes, confusion }: ProbeResults, columns: number | undefined): string {
  const found = confusion.flatMap((row, given) =>
    row.flatMap((count, predicted) =>
      given === predicted || count === 0 ? [] : [{ given, predicted, count }],
    ),
  );
  if (found.length === 0) return '';
  const rows = found
    .toSorted((a, b) => b.count - a.count)
    .slice(0, MOST_LISTED)
    .map(({ given, predicted, count }) => [classes[given]!.label, classes[predicted]!.label, String(count)]);
  return `\n${formatTable([['label', 'predicted', 'images'], ...rows], { columns, right: [2], names: [0, 1] })}`;
}

/** A class of one image has no score in the fold that leaves it out. */
function formatScore(score: number): string {
  return Number.isFinite(score) ? score.toFixed(3) : '–';
}

function suspectTable({ suspects, suspectCount }: ProbeResults, columns: number | undefined): string {
  if (suspectCount === 0) return '\nevery image is classified as its label says\n';
  const rows = suspects
    .slice(0, MOST_LISTED)
    .map(({ path, given, suggested, givenScore, suggestedScore }) => [
      given,
      formatScore(givenScore),
      suggested,
      formatScore(suggestedScore),
      path ?? '(bytes)',
    ]);
  const layout = { columns, right: [1, 3], names: [0, 2, 4], spare: [1, 3] };
  const table = formatTable([['label', 'score', 'rather', 'score', 'path'], ...rows], layout);
  const more = suspectCount > rows.length ? `and ${suspectCount - rows.length} more\n` : '';
  const count = `${counted(suspectCount, 'image was', 'images were')} put in another class than the label says; look at the first ones`;
  return `\n${shown(`${count}:`)}\n${table}${more}`;
}

function formatShare(share: number): string {
  return share.toFixed(4);
}
