/** Photos as a model takes them. */
import { basename } from 'node:path';
import { shown } from '../../base/index.js';
import { loadImage, type ImageSource, type LoadedImage, type OnnxModel, type RgbImage, type Tensor, type TensorInfo, type Transform } from '../../index.js';
import type { FeedPlan } from '../../feeds/feed-plan.js';
import { feedOfPicture } from '../../feeds/picture-feeds.js';
import { fitSize } from '../../feeds/photo-size.js';
import { layOut, planPicture } from '../../feeds/plan-feeds.js';
import { rgbOf } from '../../maps/index.js';
import { encodeWebp } from '../../images/encode.js';
import { chooseTransform, type TransformAsked } from '../../feeds/choose-transform.js';
import { partName } from '../../images/pixels/tile-grid.js';
import { sampleTiles } from '../../images/transform/read-tiles.js';
import type { TilePlan } from '../../images/transform/tile-options.js';
import { modelPathOf } from '../../model/open/open-model.js';
import { makeTransform } from '../../images/transform/transform.js';
import type { PagePhoto, PagePlaceInPicture, PhotoCode } from './page/data.js';

/** The most photos that are held at a time; a further one replaces the oldest. */
const MOST_PHOTOS = 24;
/** The most tiles of a picture. */
const MOST_TILES = 12;
const PICTURE_SIDE = 448;
/** The longest side of a picture that is cut into tiles. */
const WHOLE_SIDE = 480;
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
  choice: TransformAsked,
  model: OnnxModel,
  image: TensorInfo | undefined,
): { readonly transform: Transform; readonly note: string } {
  const { transform, note } = atItsSize(choice, model, image);
  return { transform: fitSize(transform, choice.size, model), note };
}

/** The same, at its own size. */
function atItsSize(
  choice: TransformAsked,
  model: OnnxModel,
  image: TensorInfo | undefined,
): { readonly transform: Transform; readonly note: string } {
  const found = chooseTransform(choice, modelPathOf(model), () => undefined);
  if (found && choice.transform !== 'auto')
    return { transform: found, note: 'Photos are prepared as --transform says.' };
  if (found?.source)
    return {
      transform: found,
      note: `Photos are prepared as ${shown(basename(found.source.file ?? found.source.kind))} says.`,
    };
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

/** The options that differ from those of a transform without any, as an object literal; empty for none. */
function codeOf({ options }: Transform): string {
  const defaults = makeTransform({}).options;
  const given = (Object.keys(options) as (keyof typeof options)[])
    .filter((name) => JSON.stringify(options[name]) !== JSON.stringify(defaults[name]))
    .map((name) => `${name}: ${JSON.stringify(options[name])}`);
  return given.length === 0 ? '' : `{ ${given.join(', ')} }`;
}

/** The `data:` address of a picture. */
async function addressOf(image: RgbImage, maxSide: number): Promise<string> {
  const webp = await encodeWebp(image, maxSide, PICTURE_QUALITY);
  return `data:image/webp;base64,${Buffer.from(webp).toString('base64')}`;
}

/** The photos of a page. */
export class Photos {
  readonly #feeds: FeedPlan;
  readonly #transform: Transform;
  readonly #tiles: TilePlan | undefined;
  readonly #held = new Map<string, HeldPhoto>();
  #count = 0;

  /** How photos are prepared, in a sentence. */
  readonly note: string;

  /** The input that takes photos. */
  get inputName(): string {
    return this.#feeds.inputs[0]!;
  }

  /** How code prepares a photo as this does. */
  get code(): PhotoCode {
    return { input: this.inputName, transform: codeOf(this.#transform), isTensor: this.#feeds.isPlain };
  }

  /** Throws `OPTION_INVALID` if the model takes no photo that the transform makes; the message says what would fit. */
  constructor(model: OnnxModel, choice: TransformAsked, tiles: TilePlan | undefined) {
    // A photo feeds the only input that takes images; what needs another one is refused when it is asked for.
    const images = model.inputs.filter(
      ({ dims, dtype }) => dims?.length === 4 && !/^u?int(16|32|64)/.test(dtype ?? ''),
    );
    const inputs = images.length === 1 ? images : model.inputs;
    const { transform, note } = preparationOf(choice, model, inputs[0]);
    this.note = note;
    this.#tiles = tiles;
    this.#feeds = planPicture({ inputs, imageNormalization: null }, transform, { tiles });
    this.#transform = layOut(this.#feeds);
  }

  /** The photos, in the order in which they came. */
  get all(): readonly HeldPhoto[] {
    return [...this.#held.values()];
  }

  /** Reads a photo, or tiles from all over a picture. Throws those of {@link loadImage}. */
  async add(source: ImageSource, name: string): Promise<readonly HeldPhoto[]> {
    if (!this.#tiles) return [await this.#hold(await loadImage(source, this.#transform), name, null)];
    const sampling = { most: MOST_TILES, maxSide: WHOLE_SIDE };
    const { tiles, preview, size } = await sampleTiles(source, this.#transform, this.#tiles, sampling);
    const picture = await addressOf(preview, WHOLE_SIDE);
    const held: HeldPhoto[] = [];
    for (const image of tiles) {
      const { x, y, width, height } = image.tile;
      const place = {
        picture,
        left: x / size.width,
        top: y / size.height,
        width: width / size.width,
        height: height / size.height,
      };
      // oxlint-disable-next-line no-await-in-loop -- tiles have their order
      held.push(await this.#hold(image, `${name}${partName(image)}`, place));
    }
    return held;
  }

  async #hold(image: LoadedImage, name: string, place: PagePlaceInPicture | null): Promise<HeldPhoto> {
    const picture = await addressOf({ ...image, data: rgbOf(image) }, PICTURE_SIDE);
    const page = { id: String(this.#count++), name: shown(name), picture, place };
    const held = { page, image, feed: feedOfPicture(this.#feeds, image) };
    this.#held.set(page.id, held);
    const [oldest] = this.#held.keys();
    if (this.#held.size > MOST_PHOTOS) this.#held.delete(oldest!);
    return held;
  }

  /** The photo of an id; undefined for one that is not held. */
  find(id: string): HeldPhoto | undefined {
    return this.#held.get(id);
  }
}
