/** What a processor of transformers resizes to and crops. */
import { show } from '../../base/checks.js';
import type { ResizeTarget, Size } from '../pixels/geometry.js';
import type { ConfigFields } from './config-fields.js';
import type { ProcessorClass } from './hugging-face-classes.js';

/** Reads sizes, with the defaults and the rules of a class. */
export function readGeometry(
  fields: ConfigFields,
  own: ProcessorClass,
): { readonly resize: ResizeTarget; readonly crop: Size | null } {
  const resizes = fields.flag('do_resize', true);
  if (resizes) for (const name of ['size', 'resample']) fields.checkSet(name, 'do_resize');
  const size = readSize(fields, 'size', own.isSquare) ?? own.size;
  const crop = readCrop(fields, own);
  if (!resizes) return { resize: null, crop };
  const { shortest_edge: side } = size;
  if (own.special === 'crop_pct below 384') {
    if (side === undefined) throw fields.refuse('size', 'this class needs shortest_edge');
    fields.checkSet('crop_pct', 'do_resize');
    const share = fields.positive('crop_pct', own.share);
    const whole = { height: side, width: side };
    if (side >= 384) return { resize: whole, crop };
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
  if (!crops || own.special === 'never crops') return null;
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
  if (!['height width', 'shortest_edge', 'longest_edge shortest_edge'].includes(kinds))
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
