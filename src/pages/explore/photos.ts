/** Photos as a model takes them. */
import { basename } from 'node:path';
import { shown } from '../../base/printable.js';
import { fitTransform, type ImageInput } from '../../datasets/embed/image-input.js';
import { rgbOf } from '../../explain/photos/draw-heatmap.js';
import { encodeWebp } from '../../images/encode.js';
import { chooseTransform, type TransformRequest } from '../../images/configs/find-transform.js';
import type { ImageSource } from '../../images/file/image-source.js';
import { loadImage, type LoadedImage } from '../../images/transform/load-image.js';
import { modelPathOf, type OnnxModel } from '../../model/open/open-model.js';
import { createTransform, type Transform } from '../../images/transform/transform.js';
import { encodeFloat16 } from '../../tensor/float16.js';
import { fillFeed } from '../../tensor/image-feed.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { makeTensor, type Tensor } from '../../tensor/tensor.js';
import type { PagePhoto, PhotoCode } from './page/data.js';

/** The most photos that are held at a time; a further one replaces the oldest. */
const MOST_PHOTOS = 24;
const PICTURE_SIDE = 448;
const PICTURE_QUALITY = 85;

/** A photo, what the page shows of it, and the feed. */
export interface HeldPhoto {
  readonly page: PagePhoto;
  readonly image: LoadedImage;
  readonly feed: Tensor;
}

const ASSUMED_NOTE = 'That is assumed: no configuration lies beside the model (--transform states another).';

/**
 * The transform, and why it is that one. A picture to look at may be of a guess, which vectors may not: where nothing belongs to the
 * model, ImageNet's values at its own size.
 */
function preparationOf(
  request: TransformRequest,
  model: OnnxModel,
  image: TensorInfo | undefined,
): { readonly transform: Transform; readonly note: string } {
  const found = chooseTransform(request, modelPathOf(model));
  if (found && request !== 'auto')
    return { transform: found, note: 'Photos are prepared as --transform says.' };
  if (found?.source)
    return {
      transform: found,
      note: `Photos are prepared as ${shown(basename(found.source.file ?? found.source.kind))} says.`,
    };
  const transform = createTransform('ImageNet1K_V1');
  const [, first, second, third] = image?.dims ?? [];
  const [height, width] = third === 3 && first !== 3 ? [first, second] : [second, third];
  if (typeof height !== 'number' || typeof width !== 'number' || (height === 224 && width === 224))
    return { transform, note: `Photos are prepared by ImageNet1K_V1. ${ASSUMED_NOTE}` };
  const size = { height, width };
  return {
    transform: transform.with({ resize: size, crop: size }),
    note: `Photos are resized to ${height} × ${width} and normalised as ImageNet’s. ${ASSUMED_NOTE}`,
  };
}

/** The options that differ from those of a transform without any, as an object literal; empty for none. */
function codeOf({ options }: Transform): string {
  const defaults = createTransform({}).options;
  const given = (Object.keys(options) as (keyof typeof options)[])
    .filter((name) => JSON.stringify(options[name]) !== JSON.stringify(defaults[name]))
    .map((name) => `${name}: ${JSON.stringify(options[name])}`);
  return given.length === 0 ? '' : `{ ${given.join(', ')} }`;
}

/** The photos of a page. */
export class Photos {
  readonly #input: ImageInput;
  readonly #transform: Transform;
  readonly #held = new Map<string, HeldPhoto>();
  #count = 0;

  /** How photos are prepared, in a sentence. */
  readonly note: string;

  /** The input that takes photos. */
  get inputName(): string {
    return this.#input.feed.name;
  }

  /** How code prepares a photo as this does. */
  get code(): PhotoCode {
    const { feed, multiple } = this.#input;
    const isTensor = feed.dtype === 'float32' && (multiple === null || multiple === 1);
    return { input: feed.name, transform: codeOf(this.#transform), isTensor };
  }

  /** Throws `OPTION_INVALID` if the model takes no photo that the transform makes; the message says what would fit. */
  constructor(model: OnnxModel, request: TransformRequest) {
    // A photo feeds the only input that takes images; what needs another one is refused when it is asked for.
    const images = model.inputs.filter(
      ({ dims, dtype }) => dims?.length === 4 && !/^u?int(16|32|64)/.test(dtype ?? ''),
    );
    const inputs = images.length === 1 ? images : model.inputs;
    const { transform, note } = preparationOf(request, model, inputs[0]);
    this.note = note;
    this.#input = fitTransform({ inputs, imageNormalization: null }, transform);
    this.#transform = transform.with({ layout: this.#input.feed.isLast ? 'nhwc' : 'nchw' });
  }

  /** The photos, in the order in which they came. */
  get all(): readonly HeldPhoto[] {
    return [...this.#held.values()];
  }

  /** Reads a photo. Throws those of {@link loadImage}. */
  async add(source: ImageSource, name: string): Promise<HeldPhoto> {
    const image = await loadImage(source, this.#transform);
    const webp = await encodeWebp({ ...image, data: rgbOf(image) }, PICTURE_SIDE, PICTURE_QUALITY);
    const picture = `data:image/webp;base64,${Buffer.from(webp).toString('base64')}`;
    const page = { id: String(this.#count++), name: shown(name), picture };
    const held = { page, image, feed: this.#feed(image) };
    this.#held.set(page.id, held);
    const [oldest] = this.#held.keys();
    if (this.#held.size > MOST_PHOTOS) this.#held.delete(oldest!);
    return held;
  }

  /** The photo of an id; undefined for one that is not held. */
  find(id: string): HeldPhoto | undefined {
    return this.#held.get(id);
  }

  /** The tensor of a photo, as often as a fixed batch wants it. */
  #feed(image: LoadedImage): Tensor {
    const { feed, axes, multiple, takesPixels } = this.#input;
    const rows = multiple ?? 1;
    const dims = [rows, ...axes];
    if (takesPixels) {
      const images = Array.from({ length: rows }, () => 0);
      return fillFeed({ ...feed, dims, pixels: image.data, images });
    }
    const { data } = image.toTensor();
    const repeated = new Float32Array(rows * data.length);
    for (let row = 0; row < rows; row++) repeated.set(data, row * data.length);
    return feed.dtype === 'float16'
      ? makeTensor('float16', dims, encodeFloat16(repeated))
      : makeTensor('float32', dims, repeated);
  }
}
