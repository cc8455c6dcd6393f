/** Source items → pixels, several at a time, given out in order. */
import { TapirError } from '../errors.js';
import { decodeImage } from '../image/decode.js';
import type { RgbImage } from '../image/resample.js';
import type { Transform } from '../image/transform.js';
import type { SourceItem } from './source.js';

/** The errors of single images: a run goes on over them. */
export type ImageError = TapirError<'IMAGE_NOT_FOUND' | 'IMAGE_UNREADABLE' | 'IMAGE_TOO_LARGE'>;

/** An image that was read, or why it could not be. */
export interface LoadedItem {
  /** Position in the source, from 0. */
  readonly index: number;
  readonly path: string | null;
  /** Size of the file's image, before the transform. */
  readonly width: number | null;
  readonly height: number | null;
  readonly pixels: RgbImage | null;
  readonly error: ImageError | null;
}

/**
 * Loads the items of a source.
 *
 * @param ahead - How many items may be begun before the oldest of them is given out.
 * @param atOnce - How many are decoded at once: a decoded photo takes far more memory than the pixels that remain of it.
 * @throws What the source throws; a failed image is an item with its error.
 */
export async function* loadItems(
  source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
  transform: Transform,
  ahead: number,
  atOnce: number,
): AsyncGenerator<LoadedItem> {
  const window: Promise<LoadedItem>[] = [];
  const enter = createGate(atOnce);
  let index = 0;
  for await (const item of source) {
    const at = index++;
    const loading = enter(() => loadItem(item, at, transform));
    // Awaited in order below; until then, or if the caller stops early, a failure must not count as unhandled.
    loading.catch(() => undefined);
    window.push(loading);
    if (window.length >= ahead) yield await window.shift()!;
  }
  while (window.length > 0) yield await window.shift()!;
}

/** Lets a number of steps run at once, the others in the order they came. */
function createGate(limit: number): <Result>(step: () => Promise<Result>) => Promise<Result> {
  const waiting: (() => void)[] = [];
  let free = limit;
  return async (step) => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await step();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free++;
    }
  };
}

async function loadItem(item: SourceItem, index: number, transform: Transform): Promise<LoadedItem> {
  const { path } = item;
  try {
    if (item.error) throw item.error;
    const image = await decodeImage(item.image, transform.options);
    return {
      index,
      path,
      width: image.width,
      height: image.height,
      pixels: transform.apply(image),
      error: null,
    };
  } catch (error) {
    // Whatever is not about this image (sharp missing, a defect) must end the run.
    if (!isImageError(error)) throw error;
    return { index, path, width: null, height: null, pixels: null, error };
  }
}

function isImageError(error: unknown): error is ImageError {
  return error instanceof TapirError && error.code.startsWith('IMAGE_');
}
