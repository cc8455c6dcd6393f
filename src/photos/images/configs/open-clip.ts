/** The `preprocess_cfg` of OpenCLIP (3.3), which Immich and Jina CLIP write, too. */
import { show } from '../../../base/checks.js';
import type { ResizeTarget, Size } from '../pixels/geometry.js';
import type { Channels, ConfigFields, ResolvedConfig } from './config-fields.js';
import { CLIP_MEAN, CLIP_STD } from './known-numbers.js';

/** Whether it looks like `open_clip_config.json` or `preprocess_cfg.json`. */
export function isOpenClip(json: Readonly<Record<string, unknown>>): boolean {
  return 'preprocess_cfg' in json || ('resize_mode' in json && 'size' in json);
}

/** Reads `open_clip_config.json`: the model's image size wins over the one of the preprocessing. */
export function readOpenClip(file: ConfigFields): Pick<ResolvedConfig, 'options' | 'ignored'> {
  if (!file.has('preprocess_cfg')) return readPreprocess(file);
  const fields = file.inner('preprocess_cfg');
  const model = file.has('model_cfg') ? file.inner('model_cfg') : undefined;
  const size = model?.has('vision_cfg') ? model.inner('vision_cfg').take('image_size') : undefined;
  return readPreprocess(fields, size);
}

function readPreprocess(
  fields: ConfigFields,
  imageSize?: unknown,
): Pick<ResolvedConfig, 'options' | 'ignored'> {
  fields.skip('processor_class', 'auto_map', 'image_processor_type');
  const size = readSize(fields, fields.take('size'), imageSize);
  const colours = fields.take('mode') ?? 'RGB';
  if (colours !== 'RGB') throw fields.refuse('mode', `only RGB is defined, got ${show(colours)}`);
  const wanted = fields.interpolation(['bicubic', 'bilinear'], 'bicubic');
  const mode = fields.take('resize_mode') ?? 'shortest';
  const fill = readFill(fields);
  const isSquare = size.height === size.width;
  const resize = chooseResize();
  return {
    options: {
      resize,
      crop: size,
      // OpenCLIP does not pass the interpolation on in this case.
      interpolation: mode === 'shortest' && !isSquare ? 'bicubic' : wanted,
      mean: fields.channels('mean') ?? CLIP_MEAN,
      std: fields.channels('std') ?? CLIP_STD,
      fill: mode === 'longest' ? fill : 0,
    },
    ignored: fields.rest(),
  };

  function chooseResize(): ResizeTarget {
    if (mode === 'squash') return size;
    if (mode === 'longest') return { fit: 'inside', ...size };
    if (mode !== 'shortest')
      throw fields.refuse('resize_mode', `it must be shortest, longest or squash, got ${show(mode)}`);
    return isSquare ? size.height : { fit: 'outside', ...size };
  }
}

function readSize(fields: ConfigFields, stated: unknown, ofModel: unknown): Size {
  const value = ofModel ?? stated;
  if (!Array.isArray(value)) {
    const side = fields.pixels('size', value);
    return { height: side, width: side };
  }
  if (value.length !== 2) throw fields.refuse('size', `it must be one or two numbers, got ${show(value)}`);
  return { height: fields.pixels('size', value[0]), width: fields.pixels('size', value[1]) };
}

function readFill(fields: ConfigFields): number | Channels {
  const value = fields.take('fill_color') ?? 0;
  const isByte = (one: unknown): boolean =>
    typeof one === 'number' && Number.isInteger(one) && one >= 0 && one <= 255;
  if (isByte(value)) return value as number;
  if (Array.isArray(value) && value.length === 3 && value.every(isByte)) return value as unknown as Channels;
  throw fields.refuse('fill_color', `it must be a number from 0 to 255, or three, got ${show(value)}`);
}
