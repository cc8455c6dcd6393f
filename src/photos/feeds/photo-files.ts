/** Models whose graph prepares photos: what feeds them is the decoded photo. */
import { invalidOption } from '../../base/checks.js';
import { reasonOf, TapirError } from '../../base/errors.js';
import { readModelMetadata } from '../../onnx/file/model-metadata.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import type { SharedImages } from '../../onnx/tensor/image-feed.js';
import { takeRow } from '../../onnx/tensor/rows.js';
import { isPhotoInput, takesOnePhoto, type TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { TRANSFORM_ENTRY } from '../graph/photo-front.js';
import type { TransformOptions } from '../images/transform/transform-options.js';
import { makeTransform, Transform } from '../images/transform/transform.js';
import { blankPhoto } from './blank-photo.js';
import type { FeedPlan, HeldPhoto, Processor } from './feed-plan.js';
import type { TransformRequest } from './choose-transform.js';

/** What leaves a photo as it was decoded. */
const UNTOUCHED = {
  resize: null,
  crop: null,
  scale: 1,
  mean: null,
  std: null,
  arithmetic: 'fused',
  layout: 'nhwc',
} as const;

/**
 * The transform that feeds a model whose graph prepares photos: they are decoded, and nothing else. Undefined for other models.
 *
 * @param own - The transform that the graph was made of, as its maker stated it; the file itself tells it if it was written.
 * @throws {@link TapirError} `OPTION_INVALID` for a request of another one: the graph has its own.
 */
export function photoFileTransform(
  request: TransformRequest,
  model: OnnxModel,
  inputs: readonly TensorInfo[],
  own: () => Transform | undefined,
): Transform | undefined {
  if (!(inputs.length > 0 ? inputs : model.inputs).some(isPhotoInput)) return undefined;
  if (request instanceof Transform && isUntouched(request)) return request;
  if (request !== 'auto')
    throw invalidOption('transform', 'left out: the graph of this model computes its own', request);
  const options = readStated(model) ?? own()?.options;
  const { orientation, alpha, limitPixels } = makeTransform({ ...options, patches: null }).options;
  return makeTransform({ ...UNTOUCHED, orientation, alpha, limitPixels });
}

function isUntouched({ options }: Transform): boolean {
  return Object.entries(UNTOUCHED).every(
    ([name, value]) => options[name as keyof TransformOptions] === value,
  );
}

/** The pixels that a written file that takes photos computes, as it states them; undefined for other models. Throws `TRANSFORM_UNSUPPORTED`. */
export function statedTransform(model: OnnxModel): Transform | undefined {
  const options = model.inputs.some(isPhotoInput) ? readStated(model) : undefined;
  return options && makeTransform(options);
}

/** The options that a written file states. */
function readStated(model: OnnxModel): Partial<TransformOptions> | undefined {
  const text = modelInternals
    .of(model)
    .readNow((source) => readModelMetadata(new WireReader(source), [TRANSFORM_ENTRY]).get(TRANSFORM_ENTRY));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Partial<TransformOptions>;
  } catch (error) {
    const reason = `${TRANSFORM_ENTRY} of the model's metadata is no JSON (${reasonOf(error)})`;
    throw new TapirError('TRANSFORM_UNSUPPORTED', reason, { details: { field: TRANSFORM_ENTRY, reason } });
  }
}

function rowsOfPixels({ height, width, data }: HeldPhoto): Uint8Array[] {
  return Array.from({ length: height }, (_, row) => data.subarray(row * width * 3, (row + 1) * width * 3));
}

/** Larger than any side. */
const MOST_SIDE = 2 ** 24;

/** Plans how decoded photos feed such a model: those of one size together, or one by one. */
export function planPhotos(input: TensorInfo, processor: Processor): FeedPlan {
  const { transform, tiles, clips } = processor;
  if (!isUntouched(transform))
    throw invalidOption('transform', 'left out: the graph of this model computes its own', transform.options);
  if (tiles ?? clips)
    throw invalidOption('tiles', 'left out: the graph of this model takes whole photos', tiles);
  const [batch] = input.dims!;
  const hasBatch = !takesOnePhoto(input);
  const numbers = new WeakMap<HeldPhoto, number>();
  let next = 0;
  // Where the graph takes one photo, no two are alike.
  const numberOf = (photo: HeldPhoto): number => {
    const number = numbers.get(photo) ?? next++;
    numbers.set(photo, number);
    return number;
  };
  const feedOf = (photos: readonly HeldPhoto[], rows: number): SharedImages => {
    const [{ height, width }] = photos as [HeldPhoto];
    const dims = hasBatch ? [rows, height, width, 3] : [height, width, 3];
    return {
      name: input.name,
      dtype: 'uint8',
      channels: 3,
      isLast: true,
      holds: 'bytes',
      values: null,
      dims,
      // The feed of one photo has a row of pixels for each of its own.
      images: hasBatch ? photos.map(({ data }) => data) : rowsOfPixels(photos[0]!),
    };
  };
  return {
    processor,
    inputs: [input.name],
    multiple: hasBatch && typeof batch === 'number' ? batch : null,
    takesPixels: true,
    isLast: true,
    isPlain: false,
    unlike: {
      canMix: false,
      hasRows: hasBatch,
      shapeOf: (photo) => (hasBatch ? photo.height * MOST_SIDE + photo.width : numberOf(photo)),
      partOf: (_output, tensor, _photos, index) => takeRow(tensor, index),
      blank: () => blankPhoto(transform),
    },
    feedsOf: (photos, rows) => [feedOf(photos, rows)],
  };
}
