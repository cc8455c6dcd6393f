/** Prints what a run found. */
import { format, type Spread } from '../measure.js';
import type { Likeness } from './compare.js';
import { OURS, type Skipped } from './peers.js';
import { MOST_OTHERS, type Summary } from './summary.js';

const cell = (spread: Spread | null, digits: number): string =>
  spread === null ? '–' : format(spread, digits);

export function printReport(
  { peers, against, othersShare }: Summary,
  {
    reference,
    likeness,
  }: { readonly reference: string; readonly likeness: Readonly<Record<string, Likeness>> },
  skipped: readonly Skipped[],
): void {
  printTable([
    ['median [min–max]', 'images/s', 'without start', 'CPU-s/image', 'RSS MB', 'PSS MB', 'start s'],
    ...peers.map(({ name, imagesPerS, sustainedPerS, cpuSPerImage, rssMb, pssMb, startS }) => [
      name,
      cell(imagesPerS, 1),
      cell(sustainedPerS, 1),
      cell(cpuSPerImage, 3),
      cell(rssMb, 0),
      cell(pssMb, 0),
      cell(startS, 2),
    ]),
  ]);
  printTable([
    [`${OURS} / peer, paired`, 'images/s', 'quiet rounds', 'without start', 'CPU-s/image', 'start', ''],
    ...against.map(({ peer, speed, quietSpeed, sustained, cpu, start, bars }) => [
      peer,
      cell(speed, 2),
      cell(quietSpeed, 2),
      cell(sustained, 2),
      cell(cpu, 2),
      cell(start, 2),
      bars.map(({ what, bar, holds }) => `${what} ${holds ? 'ok' : 'MISSED'}: ${bar}`).join(', '),
    ]),
  ]);
  printTable([
    [`cosine with ${reference}`, 'layer4', 'avgpool', 'avgpool: most apart'],
    ...Object.entries(likeness).map(([name, { layer4, avgpool }]) => [
      name,
      cell(layer4!.cosine, 6),
      cell(avgpool!.cosine, 6),
      avgpool!.mostApart.toExponential(1),
    ]),
  ]);
  console.log('');
  for (const { name, what, reason } of skipped) console.log(`SKIPPED ${name} (${what}): ${reason}`);
  const shares = (list: readonly number[]): string =>
    list.map((share) => `${(100 * share).toFixed(0)} %`).join(', ');
  console.log(
    `others used at most, per round: start ${shares(othersShare.start)}; all ${shares(othersShare.full)}`,
  );
  if (Math.max(...othersShare.start, ...othersShare.full) > MOST_OTHERS)
    console.log('NOT QUIET: read only ratios, those of quiet rounds first');
}

function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  console.log('');
  for (const row of rows)
    console.log(
      row.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join('  '),
    );
}
