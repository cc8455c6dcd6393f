/** What lowering a model did, for people. */
import type { LoweringReport } from '../../products/precision/lowering/report.js';
import { formatBytes } from '../../base/html/numbers.js';

/** Tensors that are named in full. */
const MOST_NAMED = 5;

/** The report in a few lines: sizes, what stays in float32 and why, and what the range of float16 cost. */
export function loweringText(report: LoweringReport): string {
  const { tensors, converted, nodes, kept, casts, bytesBefore, bytesAfter, overflows, underflows } = report;
  const inCasts = report.precision === 'float16' ? `, ${casts} casts` : '';
  const lines = [
    `${report.precision}: ${formatBytes(bytesBefore)} → ${formatBytes(bytesAfter)}, ${converted} of ${tensors} tensors, ${nodes} nodes${inCasts}`,
    ...(report.measured ?? []).map(
      ({ output, samples, least, mean }) =>
        `  cosine to float32 of "${output}" on ${samples} photos: least ${roundDown(least)}, mean ${roundDown(mean)}`,
    ),
    ...reasonLines(kept),
    ...overflows
      .slice(0, MOST_NAMED)
      .map(
        ({ tensor, count, largest }) =>
          `  overflow: "${tensor}" stays in float32, ${count} values above 65,504 (up to ${largest.toPrecision(3)})`,
      ),
  ];
  if (overflows.length > MOST_NAMED)
    lines.push(`  overflow: ${overflows.length - MOST_NAMED} more tensors (--json names them)`);
  const zeros = underflows.reduce((sum, one) => sum + one.zeros, 0);
  const subnormals = underflows.reduce((sum, one) => sum + one.subnormals, 0);
  if (zeros + subnormals > 0)
    lines.push(
      `  underflow: in ${underflows.length} tensors, ${zeros} values became 0 and ${subnormals} below 6.1e-5 keep fewer digits`,
    );
  return `${lines.join('\n')}\n`;
}

/** A line per reason, with the operators that stay for it and how many of them there are. */
function reasonLines(kept: LoweringReport['kept']): string[] {
  const byReason = new Map<string, Map<string, number>>();
  for (const { operator, reason } of kept) {
    const counts = byReason.get(reason) ?? new Map<string, number>();
    byReason.set(reason, counts.set(operator, (counts.get(operator) ?? 0) + 1));
  }
  const lines = [...byReason].map(([reason, counts]) => {
    const operators = [...counts].map(([operator, count]) => `${count} ${operator}`).join(', ');
    return `  float32: ${operators}: ${reason}`;
  });
  const more = lines.length - MOST_NAMED;
  return more > 0
    ? [...lines.slice(0, MOST_NAMED), `  float32: ${more} more reasons (--json names them)`]
    : lines;
}

/** Six digits of a cosine, never rounded up to 1. */
export function roundDown(cosine: number): string {
  return (Math.floor(cosine * 1e6) / 1e6).toFixed(6);
}
