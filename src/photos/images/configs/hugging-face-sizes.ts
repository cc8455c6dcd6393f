/** What a processor of transformers resizes to and crops. */
import { show } from '../../../base/checks.js';
import { isFixedSize, type ResizeTarget, type Size } from '../pixels/geometry.js';
import type { Backend, ConfigFields, ConfigOptions } from './config-fields.js';
import type { ProcessorClass } from './hugging-face-classes.js';

/** The options that tell sizes and places. */
type Geometry = Pick<ConfigOptions, 'resize' | 'crop' | 'first' | 'cropOffset' | 'cropPlace' | 'fill'>;

/** Reads sizes, with the defaults and the rules of a class. */
export function readGeometry(fields: ConfigFields, own: ProcessorClass, backend: Backend): Geometry {
  if (own.special === 'longest edge') return readLongest(fields, own);
  if (own.special === 'thumbnail') return readThumbnail(fields, own, backend);
  if (own.special === 'crops first') return readFirstCrop(fields, own);
  const { resize, crop: asked } = readPlain(fields, own);
  // DPT: its class for Pillow has no crop.
  const crop = own.special === 'multiple' && backend === 'pil' ? null : asked;
  if (own.special !== 'multiple' || resize === null) return { resize, crop };
  if (!isFixedSize(resize)) throw fields.refuse('size', 'this class needs height and width');
  const multiple = fields.has('ensure_multiple_of') ? fields.integer('ensure_multiple_of') : 1;
  if (fields.flag('keep_aspect_ratio', false))
    return { resize: { fit: 'nearest', ...resize, multiple }, crop };
  const sideOf = (side: number): number => {
    if ((side / multiple) % 1 === 0.5)
      throw fields.refuse(
        'ensure_multiple_of',
        `${side} lies between two multiples, and which is taken depends on the image`,
      );
    return Math.round(side / multiple) * multiple;
  };
  return { resize: { height: sideOf(resize.height), width: sideOf(resize.width) }, crop };
}

/** SAM: the longer side, then zeros at the right and the bottom. */
function readLongest(fields: ConfigFields, own: ProcessorClass): Geometry {
  if (!fields.flag('do_resize', true)) throw fields.refuse('do_resize', 'this class pads what it resized');
  refuseCrop(fields);
  const size = readSize(fields, 'size', false) ?? own.size;
  const { longest_edge: longest } = size;
  if (longest === undefined || size['shortest_edge'] !== undefined)
    throw fields.refuse('size', 'this class needs longest_edge');
  if (!fields.flag('do_pad', true)) return { resize: { longest }, crop: null };
  const { height, width } = readSize(fields, 'pad_size', true) ?? { height: 1024, width: 1024 };
  if (height === undefined || width === undefined || Math.min(height, width) < longest)
    throw fields.refuse('pad_size', `it must be height and width, at least ${longest}`);
  return { resize: { longest }, crop: { height, width }, cropPlace: 'start', fill: null };
}

/** Donut: the shorter side, then a thumbnail of that, in the middle of a black page, each if it is asked for. A list of its sizes has the width first. */
function readThumbnail(fields: ConfigFields, own: ProcessorClass, backend: Backend): Geometry {
  const isList = Array.isArray(fields.take('size'));
  const { height, width } = readFixed(fields, own);
  const page = isList ? { height: width, width: height } : { height, width };
  refuseCrop(fields);
  if (backend === 'pil' && fields.take('resample') === 0 && fields.flag('do_thumbnail', true))
    throw fields.refuse(
      'resample',
      '0 means bicubic in the second step only; ask for the backend "torchvision"',
    );
  const short = fields.flag('do_resize', true) ? Math.min(page.height, page.width) : null;
  const shrinks = fields.flag('do_thumbnail', true);
  return {
    first: shrinks && short !== null ? { resize: short } : null,
    resize: shrinks ? { fit: 'thumbnail', ...page } : short,
    crop: fields.flag('do_pad', true) ? page : null,
    // It pads half of what is missing, rounded down, on the left and above; what is too much has a negative half.
    cropOffset: 'ceil',
  };
}

/** Height and width, which a class needs. */
function readFixed(fields: ConfigFields, own: ProcessorClass): Size {
  const { height, width } = readSize(fields, 'size', true) ?? own.size;
  if (height === undefined || width === undefined)
    throw fields.refuse('size', 'this class needs height and width');
  return { height, width };
}

function refuseCrop(fields: ConfigFields): void {
  if (fields.flag('do_center_crop', false))
    throw fields.refuse('do_center_crop', 'this class pads instead of cropping');
}

/** Perceiver: a crop of the photo itself, by the ratio of its two sizes, and then the resize. */
function readFirstCrop(fields: ConfigFields, own: ProcessorClass): Geometry {
  const { height, width } = readFixed(fields, own);
  const resize = fields.flag('do_resize', true) ? { height, width } : null;
  const crop = readCrop(fields, own);
  if (crop === null) return { resize, crop: null };
  if (crop.height < height || crop.width < width)
    throw fields.refuse('crop_size', `it must be at least ${height}×${width}, the size`);
  return { first: { crop: { height: height / crop.height, width: width / crop.width } }, resize, crop: null };
}

function readPlain(
  fields: ConfigFields,
  own: ProcessorClass,
): { readonly resize: ResizeTarget; readonly crop: Size | null } {
  const resizes = fields.flag('do_resize', true);
  if (resizes) for (const name of ['size', 'resample']) fields.checkSet(name, 'do_resize');
  const size = readSize(fields, 'size', own.isSquare) ?? own.size;
  if ('longest_edge' in size && !('shortest_edge' in size))
    throw fields.refuse('size', 'this class does not take longest_edge alone');
  const crop = readCrop(fields, own);
  if (!resizes) return { resize: null, crop };
  const { shortest_edge: side } = size;
  if (own.special === 'crop_pct below 384') {
    if (side === undefined) throw fields.refuse('size', 'this class needs shortest_edge');
    const whole = { height: side, width: side };
    // From 384 on, it has no effect.
    if (side >= 384) {
      fields.skip('crop_pct');
      return { resize: whole, crop };
    }
    fields.checkSet('crop_pct', 'do_resize');
    const share = fields.positive('crop_pct', own.share);
    if (crop !== null && (crop.height !== side || crop.width !== side))
      throw fields.refuse('do_center_crop', `below 384, this class crops to ${side}×${side} already`);
    return { resize: Math.trunc(side / share), crop: whole };
  }
  if (own.special === 'crop_pct' && !fields.isNull('crop_pct'))
    return { resize: shareOf(size, fields.positive('crop_pct', own.share)), crop };
  if (own.special === '256/224' && side !== undefined)
    return { resize: Math.trunc((256 / 224) * side), crop };
  return { resize: resizeOf(fields, size), crop };
}

function readCrop(fields: ConfigFields, own: ProcessorClass): Size | null {
  const crops = fields.flag('do_center_crop', own.crops);
  const stated = readSize(fields, 'crop_size', true);
  const side = fields.isNull('crop_size') ? null : own.crop;
  if (!crops || own.neverCrops === true) return null;
  if (!stated && side === null)
    throw fields.refuse('crop_size', 'a crop is asked for, and neither the file nor its class gives a size');
  const { height, width } = stated ?? { height: side!, width: side! };
  if (height === undefined || width === undefined)
    throw fields.refuse('crop_size', 'it must be height and width');
  return { height, width };
}

type SizeFields = Readonly<Record<string, number>>;

function readSize(fields: ConfigFields, name: string, isSquare: boolean): SizeFields | undefined {
  const value = fields.take(name);
  if (value === undefined) return undefined;
  const square = name === 'crop_size' || (fields.take('default_to_square') ?? isSquare) === true;
  if (typeof value === 'number') {
    const side = fields.pixels(name, value);
    return square ? { height: side, width: side } : { shortest_edge: side };
  }
  if (Array.isArray(value) && value.length > 2)
    throw fields.refuse(
      name,
      `transformers takes the first two of its ${value.length} numbers for height and width, which ${show(value)} cannot mean`,
    );
  const entries = Array.isArray(value)
    ? [['height', value[0]] as const, ['width', value[1]] as const]
    : typeof value === 'object'
      ? Object.entries(value as Record<string, unknown>).filter(([, side]) => side !== null)
      : [];
  const kinds = entries
    .map(([kind]) => kind)
    .sort()
    .join(' ');
  const known = ['height width', 'shortest_edge', 'longest_edge shortest_edge', 'longest_edge'];
  if (!known.includes(kinds))
    throw fields.refuse(
      name,
      `it must be height and width, or shortest_edge (with longest_edge), got ${show(value)}`,
    );
  return Object.fromEntries(entries.map(([kind, side]) => [kind, fields.pixels(name, side)]));
}

function resizeOf(fields: ConfigFields, size: SizeFields): ResizeTarget {
  const { height, width, shortest_edge: shortest, longest_edge: longest } = size;
  if (shortest === undefined) return { height: height!, width: width! };
  if (longest === undefined) return shortest;
  if (longest < shortest)
    throw fields.refuse('size', `longest_edge is ${longest}, less than shortest_edge, which is ${shortest}`);
  return { shortest, longest };
}

/** PoolFormer's sizes, enlarged by the share that is cropped. */
function shareOf({ height, width, shortest_edge: shortest }: SizeFields, share: number): ResizeTarget {
  if (shortest !== undefined || height === width) return Math.trunc((shortest ?? height!) / share);
  return { height: Math.trunc(height! / share), width: Math.trunc(width! / share) };
}
