/** Pictures as a model takes them, for what looks at single ones. */
import { basename } from 'node:path';
import { shown } from '../../../base/printable.js';
import type { ImageSource } from '../../images/formats/image-source.js';
import type { RgbImage } from '../../images/pixels/rgb-image.js';
import type { Size } from '../../images/pixels/geometry.js';
import type { Tile } from '../../images/pixels/tile-grid.js';
import type { LoadedImage } from '../../images/transform/load-pixels.js';
import { sampleTiles } from '../../images/transform/read-tiles.js';
import type { TilePlan } from '../../images/transform/tile-options.js';
import { makeTransform, type Transform } from '../../images/transform/transform.js';
import { modelPathOf, type OnnxModel } from '../../../run/model/open/open-model.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { chooseTransform, type TransformRequest } from '../choose-transform.js';
import type { FeedPlan } from '../feed-plan.js';
import { loadImage } from '../load-image.js';
import { feedOfPicture, pictureTransform } from '../picture-feeds.js';
import { fitSize } from '../photo-size.js';
import { planFeeds } from '../plan-feeds.js';

/** A picture, or a tile of one, and the feed of its model. */
export interface ReadPicture {
  readonly image: LoadedImage & { readonly tile?: Tile };
  readonly feed: Tensor;
}

/** What was read of a source: the picture; or tiles from all over it, with the whole, made smaller. */
export interface ReadPictures {
  readonly pictures: readonly ReadPicture[];
  /** Null for a picture that is not cut into tiles. */
  readonly whole: { readonly preview: RgbImage; readonly size: Size } | null;
}

const ASSUMED_NOTE =
  'That is assumed: no configuration lies beside the model (option "transform" states another).';
/** The most tiles of a picture. */
const MOST_TILES = 12;
/** The longest side of the whole of a picture that is cut into tiles. */
export const WHOLE_SIDE = 480;

/** Reads pictures for a model. */
export class PictureReader {
  readonly #feeds: FeedPlan;
  readonly #tiles: TilePlan | undefined;
  /** The transform of a picture, in the model's order of axes. */
  readonly transform: Transform;
  /** How pictures are prepared, in a sentence. */
  readonly note: string;

  /** Throws `OPTION_INVALID` if the model takes no picture that the transform makes; the message says what would fit. */
  constructor(model: OnnxModel, request: TransformRequest, tiles: TilePlan | undefined) {
    // A picture feeds the only input that takes images; what needs another one is refused when it is asked for.
    const images = model.inputs.filter(
      ({ dims, dtype }) => dims?.length === 4 && !/^u?int(16|32|64)/.test(dtype ?? ''),
    );
    const inputs = images.length === 1 ? images : model.inputs;
    const { transform, note } = preparationOf(request, model, inputs[0]);
    this.note = note;
    this.#tiles = tiles;
    this.#feeds = planFeeds({ inputs }, transform, { takes: 'picture', tiles });
    this.transform = pictureTransform(this.#feeds);
  }

  /** The input that takes pictures. */
  get inputName(): string {
    return this.#feeds.inputs[0]!;
  }

  /** Whether the model takes the tensor of {@link loadImage}: float32, and one row. */
  get isPlain(): boolean {
    return this.#feeds.isPlain;
  }

  /** Reads a picture, or tiles of it. Throws those of {@link loadImage}. */
  async read(source: ImageSource): Promise<ReadPictures> {
    if (!this.#tiles) return { pictures: [this.#feed(await loadImage(source, this.transform))], whole: null };
    const sampling = { most: MOST_TILES, maxSide: WHOLE_SIDE };
    const { tiles, ...whole } = await sampleTiles(source, this.transform, this.#tiles, sampling);
    return { pictures: tiles.map((image) => this.#feed(image)), whole };
  }

  #feed(image: LoadedImage): ReadPicture {
    return { image, feed: feedOfPicture(this.#feeds, image) };
  }
}

/**
 * The transform, and why it is that one. A picture to look at may be of a guess, which vectors may not: where nothing belongs to the
 * model, ImageNet's values at its own size.
 */
function preparationOf(
  request: TransformRequest,
  model: OnnxModel,
  image: TensorInfo | undefined,
): { readonly transform: Transform; readonly note: string } {
  const { transform: found, size: asked } = chooseTransform(request, modelPathOf(model), () => undefined);
  const { transform, note } = found ? noteOf(found, request) : guess(image);
  return { transform: fitSize(transform, asked, model), note };
}

function noteOf(transform: Transform, request: TransformRequest): { transform: Transform; note: string } {
  const { source } = transform;
  const by = request === 'auto' && source ? shown(basename(source.file ?? source.kind)) : '--transform';
  return { transform, note: `Photos are prepared as ${by} says.` };
}

/** ImageNet's values at the size of the model's input. */
function guess(image: TensorInfo | undefined): { transform: Transform; note: string } {
  const transform = makeTransform('ImageNet1K_V1');
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
