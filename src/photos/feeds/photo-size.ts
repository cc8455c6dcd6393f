/** Another size than that of a model's transform. */
import { checkInteger, invalidOption, isPlainObject } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import {
  isFixedSize,
  isRatioFit,
  type MultipleSides,
  type ResizeTarget,
  type Size,
} from '../images/pixels/geometry.js';
import { parseSides } from '../images/transform/tile-options.js';
import type { Transform } from '../images/transform/transform.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { readFirstStride, readFrozenSize } from '../../run/model/read-patch-facts.js';
import { readConfig } from '../images/configs/find-transform.js';
import { dirname, join } from 'node:path';
import { readPixelInput } from '../../onnx/graph/names/pixel-input.js';

/** One side of photos that keep their ratio, in whole multiples; without `multiple`, of the model's patch. */
export type SideSize =
  MultipleSides | { readonly height: number } | { readonly shortest: number } | { readonly longest: number };

/** The size of photos as a model takes them. */
export type PhotoSize = number | Size | SideSize;

const MOST_SIDE = 65_536;
const FORMS = 'a number, { height, width }, or one of height, shortest and longest, with multiple';

/** Checks the size of a request. Throws `OPTION_INVALID`. */
export function checkPhotoSize(option: string, value: unknown): PhotoSize {
  if (typeof value === 'number') return checkInteger(option, value, 1, MOST_SIDE);
  const names = isPlainObject(value) ? Object.keys(value).toSorted().join(' ') : '';
  const known = ['height width', 'height', 'shortest', 'longest', 'multiple'];
  if (
    !isPlainObject(value) ||
    !known.includes(names.replace(/^(height|longest) multiple$|^multiple (shortest)$/, '$1$2'))
  )
    throw invalidOption(option, FORMS, value);
  for (const [name, side] of Object.entries(value)) checkInteger(`${option}.${name}`, side, 1, MOST_SIDE);
  // Its fields are those of a form.
  return value as unknown as PhotoSize;
}

/** Reads `448`, `512x768` and `height:448`; what is none of these is refused when it is checked. */
export function parseSize(text: string): unknown {
  const [, name, side] = /^(height|shortest|longest|multiple):(\d+)$/.exec(text) ?? [];
  if (name !== undefined) return { [name]: Number(side) };
  return parseSides(text);
}

/**
 * The transform of a model at a size; as it is without one.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a size that the graph or the transform does not take; `SIZE_FIXED` for a graph whose
 * sides look open, and whose table of positions was made for one size.
 */
export function fitSize(transform: Transform, size: PhotoSize | undefined, model: OnnxModel): Transform {
  const sized = size === undefined ? transform : atSize(transform, size, model);
  const input = readPixelInput(modelInternals.of(model).graph);
  if (!input || input.channels === undefined) return sized;
  const { height, width } = input;
  if (height === undefined && width === undefined) checkFrozen(sized, model);
  else if (size !== undefined && !isOutput(sized, { height, width })) {
    const sides = `${height ?? 'any'} × ${width ?? 'any'}`;
    throw invalidOption(
      'size',
      `left out: the graph takes photos of ${sides} pixels only (height × width)`,
      size,
    );
  }
  return sized;
}

function isOutput(
  { outputSize }: Transform,
  { height, width }: Partial<Record<keyof Size, number | undefined>>,
): boolean {
  return (
    outputSize !== null &&
    [height ?? outputSize.height, width ?? outputSize.width].join() ===
      [outputSize.height, outputSize.width].join()
  );
}

function checkFrozen({ outputSize }: Transform, model: OnnxModel): void {
  const only = readFrozenSize(model);
  if (!only || (outputSize?.height === only.height && outputSize.width === only.width)) return;
  const { height, width } = only;
  const given = outputSize ? `${outputSize.height} × ${outputSize.width}` : 'sizes that follow the photos';
  throw new TapirError(
    'SIZE_FIXED',
    `the model takes photos of ${height} × ${width} pixels only (height × width), not ${given}: its table of positions was frozen for that size when it was exported, although its sides look open; ask for --transform size=${height}x${width} (in code: transform: { size: { height: ${height}, width: ${width} } }), or export it again with positions that follow the size`,
    { details: { height, width } },
  );
}

/** `patch_size` of the config.json beside the model or one folder up, else the stride of the first convolution. */
function patchSizeOf(model: OnnxModel): number | undefined {
  const { path } = modelInternals.of(model);
  const folders = path === undefined ? [] : [dirname(path), dirname(dirname(path))];
  for (const folder of folders) {
    const config = readConfig(join(folder, 'config.json'));
    if (!isPlainObject(config)) continue;
    const { patch_size: size } = isPlainObject(config['vision_config']) ? config['vision_config'] : config;
    if (typeof size === 'number' && Number.isInteger(size) && size > 0) return size;
  }
  return readFirstStride(model);
}

function atSize(transform: Transform, size: PhotoSize, model: OnnxModel): Transform {
  const { options } = transform;
  if (options.patches)
    throw invalidOption('size', 'left out: the patches of this transform decide the size', size);
  if (typeof size === 'object' && !('width' in size)) {
    const multiple = 'multiple' in size ? size.multiple : patchSizeOf(model);
    if (multiple === undefined)
      throw invalidOption(
        'size',
        'given with its multiple: the model has neither patch_size in config.json nor a convolution',
        size,
      );
    // One of the four forms.
    return transform.with({ first: null, resize: { ...size, multiple } as MultipleSides, crop: null });
  }
  const wanted = typeof size === 'number' ? { height: size, width: size } : size;
  const { outputSize } = transform;
  if (!outputSize || options.crop === null) {
    const given = options.resize;
    if (typeof size !== 'number' || given === null) return transform.with({ resize: wanted });
    const resize = isRatioFit(given) ? { ...given, ...wanted } : typeof given === 'number' ? size : wanted;
    return transform.with({ resize });
  }
  return transform.with({ resize: scaled(options.resize, outputSize, wanted, size), crop: wanted });
}

/** The resize before a crop of another size, in the same ratio to it; timm's `crop_pct`. */
function scaled(resize: ResizeTarget, crop: Size, wanted: Size, size: PhotoSize): ResizeTarget {
  const side = (name: keyof Size, length: number): number => Math.floor((wanted[name] * length) / crop[name]);
  if (resize === null) return null;
  if (isFixedSize(resize))
    return { height: side('height', resize.height), width: side('width', resize.width) };
  const isSquare = wanted.height === wanted.width && crop.height === crop.width;
  if (typeof resize === 'number')
    return isSquare
      ? side('height', resize)
      : { fit: 'outside', height: side('height', resize), width: side('width', resize) };
  if (isRatioFit(resize))
    return { ...resize, height: side('height', resize.height), width: side('width', resize.width) };
  if (isSquare && 'longest' in resize && !('shortest' in resize) && !('multiple' in resize))
    return { longest: side('height', resize.longest) };
  throw invalidOption(
    'size',
    'left out: the resize of this transform has no ratio to its crop; state the transform',
    size,
  );
}
