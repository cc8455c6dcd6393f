/** timm's `config.json`, as timm.data.create_transform reads it for evaluation (timm 1.0.31). */
import { show } from '../../../base/checks.js';
import { IMAGENET_MEAN } from '../../../base/imagenet.js';
import { roundHalfEven } from '../../../base/round-half-even.js';
import type { Size } from '../pixels/geometry.js';
import { INTERPOLATIONS } from '../resample/kernel.js';
import type { ConfigFields, ConfigOptions, ResolvedConfig } from './config-fields.js';

/** Fields that change no pixels of the evaluation transform. */
const HARMLESS = [
  'pool_size', 'fixed_input_size', 'min_input_size', 'test_input_size', 'test_crop_pct', 'num_classes', 'classifier', 'first_conv',
  'license', 'tag', 'custom_load', 'origin_url', 'paper_ids', 'paper_name', 'notes', 'url', 'file', 'hf_hub_id', 'hf_hub_filename',
  'architecture', 'model_args', 'num_features', 'global_pool', 'source', 'label_names', 'label_descriptions', 'state_dict',
] as const; // prettier-ignore

/** Whether it looks like timm's: with `pretrained_cfg`, or flat in old files. */
export function isTimm(json: Readonly<Record<string, unknown>>): boolean {
  return 'pretrained_cfg' in json || ('architecture' in json && 'input_size' in json);
}

/** Reads `pretrained_cfg`, or the same fields of a flat file. */
export function readTimm(file: ConfigFields): Pick<ResolvedConfig, 'options' | 'ignored'> {
  const fields = file.has('pretrained_cfg') ? file.inner('pretrained_cfg') : file;
  fields.skip(...HARMLESS);
  const stated = readInputSize(fields);
  const { height, width } = readImageSize(file, fields) ?? stated;
  const share = fields.positive('crop_pct', 0.875);
  const interpolation = fields.interpolation(INTERPOLATIONS, 'bicubic');
  const mean = fields.channels('mean') ?? IMAGENET_MEAN;
  const std = fields.channels('std');
  const scaled = { height: Math.floor(height / share), width: Math.floor(width / share) };
  const mode = fields.take('crop_mode') ?? 'center';
  const fill =
    mode === 'border' ? ([roundToByte(mean[0]), roundToByte(mean[1]), roundToByte(mean[2])] as const) : 0;
  return {
    options: { resize: chooseResize(), crop: { height, width }, interpolation, mean, std, fill },
    ignored: fields.rest(),
  };

  function chooseResize(): ConfigOptions['resize'] {
    if (mode === 'squash') return scaled;
    if (mode === 'border') return { fit: 'inside', ...scaled };
    if (mode !== 'center')
      throw fields.refuse('crop_mode', `it must be center, squash or border, got ${show(mode)}`);
    return scaled.height === scaled.width ? scaled.height : { fit: 'outside', ...scaled };
  }
}

/** The size that the model was made for: it counts where the network has one size, as in timm's own reading of a saved model. */
function readImageSize(file: ConfigFields, fields: ConfigFields): Size | undefined {
  const given = file.take('model_args');
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return undefined;
  const args = given as Readonly<Record<string, unknown>>;
  if (args['in_chans'] !== undefined && args['in_chans'] !== null && args['in_chans'] !== 3)
    throw file.refuse('model_args', `models of ${show(args['in_chans'])} channels are not supported`);
  const isOpen =
    Boolean(args['dynamic_img_size']) || args['strict_img_size'] === false || Boolean(args['use_naflex']);
  const size = args['img_size'] ?? undefined;
  if (size === undefined || isOpen || !fields.take('fixed_input_size')) return undefined;
  const [height, width, ...more] = Array.isArray(size) ? (size as unknown[]) : [size, size];
  if (more.length > 0)
    throw file.refuse('model_args', `img_size must be one or two numbers, got ${show(size)}`);
  return { height: file.pixels('model_args', height), width: file.pixels('model_args', width) };
}

function readInputSize(fields: ConfigFields): Size {
  const value = fields.take('input_size') ?? [3, 224, 224];
  if (!Array.isArray(value) || value.length !== 3)
    throw fields.refuse('input_size', `it must be [3, height, width], got ${show(value)}`);
  if (value[0] !== 3)
    throw fields.refuse('input_size', `models of ${show(value[0])} channels are not supported`);
  return { height: fields.pixels('input_size', value[1]), width: fields.pixels('input_size', value[2]) };
}

function roundToByte(mean: number): number {
  return Math.max(0, Math.min(255, roundHalfEven(255 * mean)));
}
