/** The table of `tapir check` and `--engine auto`: what was measured of each engine, device and precision. */
import type { EngineCandidate } from '../../datasets/records/engine-choice.js';
import { formatBytes, formatShare } from '../../base/html/numbers.js';
import { formatCosine } from '../../products/precision/compare/describe-comparison.js';
import { formatTable } from './table.js';

/** The headings. */
export const ENGINE_COLUMNS = [
  'engine',
  'device',
  'precision',
  'images/s',
  'least cosine',
  'neighbours',
  'same class',
  'memory',
] as const;
/** Those that a narrow terminal goes without, and those of numbers. */
const LAYOUT = { spare: [6, 7, 5], right: [3, 5, 6, 7] } as const;

/** A row for each. Where one does not run, the reason stands for its cosine. */
export function engineRows(engines: readonly EngineCandidate[]): string[][] {
  return engines.map(({ engine, device, precision, imagesPerSecond, cosine, reason, ...more }) => [
    engine,
    device,
    precision,
    imagesPerSecond?.toFixed(1) ?? '–',
    cosine === null ? (reason ?? '–') : formatCosine(cosine),
    more.neighbours === null ? '–' : formatShare(more.neighbours),
    more.top1 === null ? '–' : formatShare(more.top1),
    more.memoryBytes === null ? '–' : formatBytes(more.memoryBytes),
  ]);
}

/** The table as text; empty without rows. */
export function engineTable(engines: readonly EngineCandidate[], columns: number | undefined): string {
  if (engines.length === 0) return '';
  return formatTable([ENGINE_COLUMNS, ...engineRows(engines)], { columns, ...LAYOUT });
}
