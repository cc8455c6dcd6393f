/** A random sample of a source's images, each of which can be read more than once. */
import { Reservoir } from '../../../base/reservoir.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';

const SEED = 1;
/** The most bytes of files that a sample holds in memory, as the items of a compressed archive do. */
const MOST_BYTES = 512 * 1024 ** 2;

/** Images to compare on, in the order of the source. */
export interface Sample {
  readonly items: readonly SourceItem[];
  /** The number of images in the source. */
  readonly seen: number;
}

/** Draws at most `size` items with a fixed seed: the same source gives the same sample. */
export async function sampleItems(source: AsyncIterable<SourceItem>, size: number): Promise<Sample> {
  const drawn = new Reservoir<{ readonly item: SourceItem; readonly place: number }>(size, SEED);
  let seen = 0;
  let bytes = 0;
  for await (const item of source) {
    const place = seen++;
    if (item.image instanceof Uint8Array) {
      if (bytes + item.image.byteLength > MOST_BYTES) continue;
      bytes += item.image.byteLength;
    }
    drawn.add(() => ({ item, place }));
  }
  const items = [...drawn.items].sort((a, b) => a.place - b.place).map(({ item }) => readOften(item));
  return { items, seen };
}

/** A Response or a web stream can be read only once, so its bytes are kept. Entries of archives and URLs are read again. */
function readOften(item: SourceItem): SourceItem {
  const { image, path } = item;
  if (typeof image !== 'function' || path !== null) return item;
  let bytes: Promise<Uint8Array> | undefined;
  return { ...item, image: () => (bytes ??= image()) };
}
