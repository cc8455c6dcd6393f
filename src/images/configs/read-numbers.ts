/** Fields that several libraries have. */
import { show } from '../../base/checks.js';
import type { Interpolation } from '../resample/kernel.js';
import type { ConfigFields } from './config-fields.js';

/** Red, green and blue. */
export type Channels = readonly [number, number, number];

/** Three numbers, or one for all channels; undefined if the field is missing. A standard deviation must not be 0. */
export function readChannels(fields: ConfigFields, name: string): Channels | undefined {
  const value = fields.take(name);
  if (value === undefined) return undefined;
  const numbers = typeof value === 'number' ? [value, value, value] : value;
  const isStd = name.endsWith('std');
  const isFit = (one: unknown): boolean =>
    typeof one === 'number' && Number.isFinite(one) && (!isStd || Math.fround(one) !== 0);
  if (Array.isArray(numbers) && numbers.length === 3 && numbers.every(isFit))
    return numbers as unknown as Channels;
  throw fields.refuse(name, `it must be three numbers${isStd ? ' other than 0' : ''}, got ${show(value)}`);
}

/** An interpolation that the library knows. */
export function readInterpolation<Known extends Interpolation>(
  fields: ConfigFields,
  known: readonly Known[],
  otherwise: Known,
): Known {
  const value = fields.take('interpolation') ?? otherwise;
  const found = known.find((one) => one === value);
  if (found !== undefined) return found;
  throw fields.refuse('interpolation', `it must be one of ${known.join(', ')}, got ${show(value)}`);
}
