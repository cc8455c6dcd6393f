/** The checks of the option `patches`. */
import {
  checkInteger,
  checkOneOf,
  invalidOption,
  isPlainObject,
  withDefaults,
} from '../../../base/checks.js';
import type { NaflexPatches, PatchOptions, QwenPatches } from './patch-sizes.js';

const MOST_PATCH = 4096;
const MOST_MERGE = 64;
const MAX_PIXELS = 2 ** 31 - 1;
/** A tensor of more patches would not fit in memory. */
const MAX_PATCHES = 2 ** 20;
const NAFLEX: NaflexPatches = { processor: 'naflex', size: 16, maxPatches: 256 };
const QWEN: QwenPatches = {
  processor: 'qwen2-vl',
  size: 14,
  merge: 2,
  frames: 2,
  minPixels: 56 * 56,
  maxPixels: 28 * 28 * 1280,
};

/** Checks how photos are cut, and returns a frozen copy with every field. Throws `OPTION_INVALID`. */
export function checkPatches(value: unknown): PatchOptions | null {
  if (value === null) return null;
  if (!isPlainObject(value)) throw invalidOption('patches', '{ processor, size, … } or null', value);
  const processor = checkOneOf('patches.processor', value['processor'], ['naflex', 'qwen2-vl']);
  const check = <Named extends PatchOptions>(given: Named, field: keyof Named & string, most: number) =>
    checkInteger(`patches.${field}`, given[field], 1, most);
  if (processor === 'naflex') {
    const given = withDefaults(NAFLEX, value, 'patches');
    const size = check(given, 'size', MOST_PATCH);
    return Object.freeze({ processor, size, maxPatches: check(given, 'maxPatches', MAX_PATCHES) });
  }
  const given = withDefaults(QWEN, value, 'patches');
  const minPixels = check(given, 'minPixels', MAX_PIXELS);
  return Object.freeze({
    processor,
    size: check(given, 'size', MOST_PATCH),
    merge: check(given, 'merge', MOST_MERGE),
    frames: check(given, 'frames', MOST_MERGE),
    minPixels,
    maxPixels: checkInteger('patches.maxPixels', given.maxPixels, minPixels, MAX_PIXELS),
  });
}
