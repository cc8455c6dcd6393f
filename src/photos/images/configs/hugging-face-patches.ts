/** What a processor of transformers cuts into patches: NaFlex of SigLIP 2, and Qwen-VL. */
import { isPlainObject, show } from '../../../base/checks.js';
import { PATCH_PROCESSORS, type PatchOptions, type QwenPatches } from '../patches/patch-processors.js';
import type { ConfigFields, ConfigOptions } from './config-fields.js';
import type { ProcessorClass } from './hugging-face-classes.js';

/** Old files repeat the limits in `size`, where the library drops them. */
const SIZE_FIELDS: ReadonlySet<string> = new Set([
  'shortest_edge',
  'longest_edge',
  'min_pixels',
  'max_pixels',
]);

/** The fields of whole numbers, and the options that they are. */
const COUNTS = {
  patch_size: 'size',
  max_num_patches: 'maxPatches',
  merge_size: 'merge',
  temporal_patch_size: 'frames',
} as const;

/** The options of a class that cuts patches; undefined for all others. */
export function readPatches(
  fields: ConfigFields,
  own: ProcessorClass,
): Pick<ConfigOptions, 'resize' | 'crop' | 'patches'> | undefined {
  const { special } = own;
  if (!isPatches(special)) return undefined;
  for (const [name, why] of [
    ['do_resize', 'photos whose sides are no multiples of the patch cannot be cut'],
    ['do_rescale', 'bytes would be fed'],
  ] as const)
    if (!fields.flag(name, true)) throw fields.refuse(name, `without it, ${why}`);
  const { defaults } = PATCH_PROCESSORS[special];
  const counts = Object.entries(COUNTS).flatMap(([name, option]) => {
    if (!(option in defaults)) return [];
    // Null takes the default away, and the library fails.
    fields.checkSet(name, 'cutting patches');
    return fields.has(name) ? [[option, fields.integer(name)]] : [];
  });
  const limits = 'minPixels' in defaults ? readPixelLimits(fields, own) : {};
  // The numbers of this processor.
  const patches = { ...defaults, ...Object.fromEntries(counts), ...limits } as PatchOptions;
  return { resize: null, crop: null, patches };
}

function isPatches(special: ProcessorClass['special']): special is PatchOptions['processor'] {
  return special !== undefined && special in PATCH_PROCESSORS;
}

/** The fields of `size` are numbers of pixels here. `min_pixels` and `max_pixels` win over them. */
function readPixelLimits(
  fields: ConfigFields,
  own: ProcessorClass,
): Pick<QwenPatches, 'minPixels' | 'maxPixels'> {
  const size = fields.take('size') ?? own.size;
  if (!isPlainObject(size))
    throw fields.refuse(
      'size',
      `it must be shortest_edge and longest_edge, numbers of pixels, got ${show(size)}`,
    );
  const limit = (field: string, edge: string): number => {
    const pixels = (own.ignoresLimits === true ? undefined : fields.take(field)) ?? size[edge];
    if (typeof pixels === 'number' && Number.isInteger(pixels) && pixels > 0 && pixels < 2 ** 31)
      return pixels;
    const where = fields.has(field) ? field : 'size';
    throw fields.refuse(
      where,
      `${field}, or ${edge} of size, must be a number of pixels, got ${show(pixels)}`,
    );
  };
  const [minPixels, maxPixels] = [limit('min_pixels', 'shortest_edge'), limit('max_pixels', 'longest_edge')];
  const other = Object.keys(size).find((edge) => !SIZE_FIELDS.has(edge) && size[edge] !== null);
  if (other !== undefined) throw fields.refuse('size', `"${other}" of it is not known`);
  if (minPixels > maxPixels)
    throw fields.refuse('min_pixels', `${minPixels} is more than the largest number of pixels, ${maxPixels}`);
  return { minPixels, maxPixels };
}
