/** The checks of the option `patches`. */
import {
  checkInteger,
  checkOneOf,
  invalidOption,
  isPlainObject,
  withDefaults,
  type Options,
} from '../../../base/checks.js';
import { PATCH_PROCESSORS, type PatchOptions } from './patch-processors.js';

const MOST_PIXELS = 2 ** 31 - 1;
/** The largest number of each option. A tensor of more patches would not fit in memory. */
const MOST: Readonly<Record<string, number>> = {
  size: 4096,
  merge: 64,
  frames: 64,
  maxPatches: 2 ** 20,
  minPixels: MOST_PIXELS,
  maxPixels: MOST_PIXELS,
};

/** Checks how photos are cut, and returns a frozen copy with every field. Throws `OPTION_INVALID`. */
export function checkPatches(value: unknown): PatchOptions {
  if (!isPlainObject(value)) throw invalidOption('patches', '{ processor, size, … } or null', value);
  const names = Object.keys(PATCH_PROCESSORS) as PatchOptions['processor'][];
  const { defaults } = PATCH_PROCESSORS[checkOneOf('patches.processor', value['processor'], names)];
  const given = withDefaults<PatchOptions>(defaults, value as Options<PatchOptions>, 'patches');
  for (const [name, number] of Object.entries(given)) {
    if (name === 'processor') continue;
    const least = name === 'maxPixels' && 'minPixels' in given ? given.minPixels : 1;
    checkInteger(`patches.${name}`, number, least, MOST[name]!);
  }
  return Object.freeze({ ...given });
}
