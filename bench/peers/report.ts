/** Prints what a run found. */
import { format, type Spread } from '../measure.js';
import type { Compared } from './compare.js';
import { MOST_OTHERS, type Summary } from './summary.js';

const cell = (spread: Spread | null, digits: number): string =>
  spread === null ? '–' : format(spread, digits);

const verdict = (holds: boolean): string => (holds ? 'ok' : 'MISSED');

export function printReport(
  { peers, against, ceilings, othersShare }: Summary,
  compared: readonly Compared[],
): void {
  printTable([
    ['median [min–max]', 'images/s', 'without start', 'CPU-s/image', 'RSS MB', 'PSS MB', 'start s', 'cached'],
    ...peers.map(({ name, imagesPerS, sustainedPerS, cpuSPerImage, rssMb, pssMb, startS, cachedStartS }) => [
      name,
      cell(imagesPerS, 1),
      cell(sustainedPerS, 1),
      cell(cpuSPerImage, 3),
      cell(rssMb, 0),
      cell(pssMb, 0),
      cell(startS, 2),
      cell(cachedStartS, 2),
    ]),
  ]);
  for (const ours of new Set(against.map((ratio) => ratio.ours)))
    printTable([
      [
        `${ours} / peer, paired`,
        'images/s',
        'quiet rounds',
        'without start',
        'CPU-s/image',
        'start',
        'cached',
        '',
      ],
      ...against
        .filter((ratio) => ratio.ours === ours)
        .map(({ peer, speed, quietSpeed, sustained, cpu, start, cachedStart, bars }) => [
          peer,
          cell(speed, 2),
          cell(quietSpeed, 2),
          cell(sustained, 2),
          cell(cpu, 2),
          cell(start, 2),
          cell(cachedStart, 2),
          bars.map(({ what, bar, holds }) => `${what} ${verdict(holds)}: ${bar}`).join(', '),
        ]),
    ]);
  printTable([
    ['1/(1/decode + 1/model)', 'decode', 'model', 'ceiling', 'reached', 'without start', ''],
    ...ceilings.map((one) => [
      one.ours,
      cell(one.decodePerS, 1),
      cell(one.modelPerS, 1),
      cell(one.ceilingPerS, 1),
      cell(one.share, 2),
      cell(one.sustainedShare, 2),
      one.holds === null ? '' : `${verdict(one.holds)}: ${one.bar}`,
    ]),
  ]);
  printTable([
    ['features', 'against', 'output', 'cosine', 'most apart', 'of the range', ''],
    ...compared.flatMap(({ name, reference, likeness, bar, holds }) =>
      Object.entries(likeness).map(([output, { cosine, mostApart, ofRange }]) => [
        name,
        reference,
        output,
        cell(cosine, 6),
        mostApart.toExponential(1),
        ofRange.toExponential(1),
        bar === null ? '' : `${verdict(holds[output]!)}: ${bar}`,
      ]),
    ),
  ]);
  console.log('');
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
