/** Photos as a model takes them. */
import { encodeWebp } from '../../../photos/images/encode.js';
import { partName, type Tile } from '../../../photos/images/pixels/tile-grid.js';
import { PictureReader, WHOLE_SIDE } from '../../../photos/feeds/pictures/picture-reader.js';
import type { TilePlan } from '../../../photos/images/transform/tile-options.js';
import type { TransformRequest } from '../../../photos/feeds/choose-transform.js';
import { shown } from '../../../base/printable.js';
import { createTransform } from '../../../photos/feeds/create-transform.js';
import type { ImageSource } from '../../../photos/images/formats/image-source.js';
import type { LoadedImage } from '../../../photos/images/transform/load-pixels.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import type { RgbImage } from '../../../photos/images/pixels/rgb-image.js';
import type { Size } from '../../../photos/images/pixels/geometry.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import { rgbOf } from '../../maps/blend-heatmap.js';
import type { PagePhoto, PagePlaceInPicture, PhotoCode } from './page/data.js';

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

/** The options that differ from those of a transform without any, as an object literal; empty for none. */
function codeOf({ options }: Transform): string {
  const defaults = createTransform({}).options;
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

/** Where a tile lies in its picture. */
function placeIn({ x, y, width, height }: Tile, size: Size, picture: string): PagePlaceInPicture {
  return {
    picture,
    left: x / size.width,
    top: y / size.height,
    width: width / size.width,
    height: height / size.height,
  };
}

/** The photos of a page. */
export class Photos {
  readonly #reader: PictureReader;
  readonly #held = new Map<string, HeldPhoto>();
  #count = 0;

  /** Throws `OPTION_INVALID` as {@link PictureReader} does. */
  constructor(model: OnnxModel, request: TransformRequest, tiles: TilePlan | undefined) {
    this.#reader = new PictureReader(model, request, tiles);
  }

  /** How photos are prepared, in a sentence. */
  get note(): string {
    return this.#reader.note;
  }

  /** The input that takes photos. */
  get inputName(): string {
    return this.#reader.inputName;
  }

  /** How code prepares a photo as this does. */
  get code(): PhotoCode {
    const { inputName, transform, isPlain } = this.#reader;
    return { input: inputName, transform: codeOf(transform), isTensor: isPlain };
  }

  /** The photos, in the order in which they came. */
  get all(): readonly HeldPhoto[] {
    return [...this.#held.values()];
  }

  /** Reads a photo, or tiles from all over a picture. Throws those of {@link loadImage}. */
  async add(source: ImageSource, name: string): Promise<readonly HeldPhoto[]> {
    const { pictures, whole } = await this.#reader.read(source);
    const picture = whole && (await addressOf(whole.preview, WHOLE_SIDE));
    const held: HeldPhoto[] = [];
    for (const { image, feed } of pictures) {
      const { tile } = image;
      const place = tile && whole && placeIn(tile, whole.size, picture!);
      const shownImage = { ...image, data: rgbOf(image) };
      const page = {
        id: String(this.#count++),
        name: shown(`${name}${partName(image)}`),
        // oxlint-disable-next-line no-await-in-loop -- tiles have their order
        picture: await addressOf(shownImage, PICTURE_SIDE),
        place: place ?? null,
      };
      held.push({ page, image, feed });
      this.#held.set(page.id, held.at(-1)!);
      const [oldest] = this.#held.keys();
      if (this.#held.size > MOST_PHOTOS) this.#held.delete(oldest!);
    }
    return held;
  }

  /** The photo of an id; undefined for one that is not held. */
  find(id: string): HeldPhoto | undefined {
    return this.#held.get(id);
  }
}
