/** Numbers as people read them, the same on every machine. */

/** `12 345`, with narrow spaces. */
export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

/** Four significant digits: `0.01234`, `1.234e-7`; a dash for NaN and infinities. */
export function formatValue(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size < 1e-3 || size >= 1e6 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace('-', '−').replace('e-', 'e−').replace('e+', 'e');
}

/** `94.2 %`. */
export function formatShare(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** A share of a count with its 95 % interval (Wilson 1927), which is wide where there is little to count: `70.8 % (51 to 85 %)`. */
export function formatShareOf(share: number, total: number): string {
  if (total === 0) return '–';
  const z = 1.96;
  const scale = 1 + z ** 2 / total;
  const middle = (share + z ** 2 / (2 * total)) / scale;
  const half = (z / scale) * Math.sqrt((share * (1 - share)) / total + z ** 2 / (4 * total ** 2));
  const percent = (value: number): string =>
    (100 * Math.min(1, Math.max(0, value))).toFixed(half < 0.01 ? 1 : 0);
  return `${formatShare(share)} (${percent(middle - half)} to ${percent(middle + half)} %)`;
}

/** `4 min 12 s`. */
export function formatSeconds(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Bytes in decimal units: `93.9 MB`. */
export function formatBytes(bytes: number): string {
  return scale(bytes, ['bytes', 'kB', 'MB', 'GB', 'TB']);
}

/** A large count with three digits: `4.09 G`. */
export function formatLarge(count: number): string {
  return scale(count, ['', 'k', 'M', 'G', 'T', 'P']).trimEnd();
}

function scale(number: number, units: readonly string[]): string {
  let value = number;
  let unit = 0;
  // 999.5 and more would round to four digits.
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 999.5 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}
