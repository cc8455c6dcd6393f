/** Records of any kind as names and texts. Files may hold anything. */
import { shown } from '../printable.js';
import { formatBytes, formatCount, formatSeconds } from './numbers.js';

/** A name and its text; what is `bad` stands out. */
export type Fact = readonly [name: string, text: string, mark?: 'bad' | undefined];

const MAX_TEXT = 400;

/** Fields of an object as text, in their order, without those that say nothing; sizes and times in units that people read. */
export function factsOf(value: unknown): Fact[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value)
    .map(([name, inner]): Fact => {
      if (typeof inner === 'number' && /(?:^b|B)ytes$/.test(name))
        return [spaced(name.replace(/bytes$/i, '')) || 'size', formatBytes(inner)];
      if (typeof inner === 'number' && name === 'seconds') return ['time', formatSeconds(inner)];
      return [spaced(name), textOf(inner)];
    })
    .filter(([, text]) => text !== '');
}

/** `limitPixels` → `limit pixels`. */
function spaced(name: string): string {
  return shown(name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)).trim();
}

/** A value in words: `flip true, crop 224`; empty for nothing. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return shown(value.slice(0, MAX_TEXT));
  if (Array.isArray(value)) return value.slice(0, 50).map(textOf).join(', ').slice(0, MAX_TEXT);
  if (typeof value === 'object') {
    const { height, width } = value as Readonly<Record<string, unknown>>;
    if (typeof height === 'number' && typeof width === 'number')
      return `${height} × ${width} (height × width)`;
    const fields = factsOf(value).map(([name, text]) => `${name} ${text}`);
    return fields.join(', ').slice(0, MAX_TEXT);
  }
  if (typeof value === 'number')
    return Number.isInteger(value) && value >= 1e5 ? formatCount(value) : String(value);
  return typeof value === 'boolean' ? (value ? 'yes' : 'no') : '';
}
