/**
 * Source items → batches of tiles in shared memory. A batch is full of tiles that are kept, of as many pictures as it takes; a picture
 * that fails has a place, too. So batches depend on the pictures alone, wherever a run begins.
 */
import { labelOf } from '../images/file/image-file.js';
import type { LoadedTiles } from '../images/lanes/decode-protocol.js';
import type { DecodeLanes, LanePicture } from '../images/lanes/decode-lanes.js';
import { runLength, TileGrid, type Tile } from '../images/pixels/tile-grid.js';
import type { TilePlan } from '../images/transform/tile-options.js';
import type { FeedBatches, Filled, LoadedItem } from './feed-batches.js';
import { fileOf, type SourceItem } from './items/source-item.js';
import type { FeedPlan } from './feed-plan.js';
import { allBackground } from '../images/transform/read-tiles.js';
import { PAUSE } from './pauses.js';
import type { PhotoMemory } from './photo-memory.js';
import { failedInput, fileBytesOf, joinStamps } from './read-item.js';

/** Tiles that are read at once, in memory of their own. */
interface Chunk extends LoadedTiles {
  /** One after the other; at most as many as {@link runLength} says. */
  readonly pixels: Uint8Array;
  /** The index of the tile after those that were looked at. */
  readonly next: number;
}

/** A picture of the source, whose first tiles are being loaded. */
interface StartedPicture {
  readonly item: SourceItem;
  readonly index: number;
  readonly chunks: AsyncGenerator<Chunk>;
  readonly first: Promise<IteratorResult<Chunk>>;
}

/** Chunks that are loaded ahead of a picture that one thread decodes. */
const CHUNKS_AHEAD = 2;

/** Fills batches with the tiles of a source, one picture after the other, while the first tiles of the next ones are being loaded. */
export async function fillTiles(
  queue: FeedBatches,
  plan: FeedPlan,
  tiles: TilePlan,
  lanes: DecodeLanes,
): Promise<void> {
  const cutter = new TileCutter(queue);
  const loader = new TileLoader(queue, plan, tiles, lanes);
  for await (const picture of loader.pictures()) {
    if (picture === PAUSE) cutter.end();
    else await cutter.add(picture);
  }
  cutter.end();
}

/** Cuts the tiles of pictures into batches. */
class TileCutter {
  readonly #queue: FeedBatches;
  #batch: TileBatch | undefined;

  constructor(queue: FeedBatches) {
    this.#queue = queue;
  }

  /** Adds all tiles of a picture, or its failure. Throws what is not about this picture. */
  async add(picture: StartedPicture): Promise<void> {
    let next = picture.item.firstTile ?? 0;
    let isBegun = next > 0;
    try {
      for await (const chunk of chunksOf(picture)) {
        for (const [at, { index }] of chunk.tiles.entries()) {
          const batch = await this.#room(picture, index);
          batch.put(picture, chunk, at, isBegun);
          isBegun = true;
        }
        next = chunk.next;
      }
      if (!isBegun) throw emptyPicture(picture.item);
    } catch (error) {
      const failed = failedInput(picture.item, error);
      const batch = await this.#room(picture, next);
      batch.fail({ index: picture.index, ...failed }, isBegun);
    }
  }

  /** Hands over the batch that is being filled, if there is one. */
  end(): void {
    if (this.#batch) this.#queue.push(this.#batch.memory, this.#batch.filled());
    this.#batch = undefined;
  }

  /** A batch with room for one more. A full one is handed over: of the picture, it has the tiles before `next`. */
  async #room(picture: StartedPicture, next: number): Promise<TileBatch> {
    this.#queue.throwIfStopped();
    if (this.#batch?.isFull) {
      this.#batch.goOn(picture, next);
      this.end();
    }
    return (this.#batch ??= new TileBatch(await this.#queue.begin(), this.#queue.batch));
  }
}

/** The tiles of a picture in a batch that is being filled. */
interface Piece {
  readonly picture: StartedPicture;
  readonly facts: Omit<LoadedItem, 'rows' | 'cut'>;
  /** The row of its first tile here. */
  readonly first: number;
  readonly tiles: Tile[];
  /** Whether earlier batches have tiles of it. */
  readonly isBegun: boolean;
}

/** A batch that is being filled. */
class TileBatch {
  readonly memory: PhotoMemory;
  readonly #most: number;
  readonly #items: LoadedItem[] = [];
  /** The last picture, which may get more tiles here; an item once it is closed. */
  #piece: Piece | undefined;
  #rows = 0;
  #failures = 0;

  constructor(memory: PhotoMemory, most: number) {
    this.memory = memory;
    this.#most = most;
  }

  get isFull(): boolean {
    return this.#rows + this.#failures >= this.#most;
  }

  /** Adds a tile of a picture: the one at a place of a chunk. */
  put(picture: StartedPicture, chunk: Chunk, at: number, isBegun: boolean): void {
    if (this.#piece?.picture !== picture) {
      this.#close(null);
      this.#piece = { picture, facts: factsOf(picture, chunk), first: this.#rows, tiles: [], isBegun };
    }
    const place = this.memory.place(this.#rows++);
    place.set(chunk.pixels.subarray(at * place.length, (at + 1) * place.length));
    this.#piece.tiles.push(chunk.tiles[at]!.tile);
  }

  /** Adds a picture, or the rest of one, that cannot be read. */
  fail(item: Omit<LoadedItem, 'rows'>, isBegun: boolean): void {
    this.#close(null);
    const cut = { tiles: [], isBegun, next: null };
    this.#items.push({ ...item, rows: [this.#rows, 0], ...(isBegun ? { cut } : {}) });
    this.#failures++;
  }

  /** If it has tiles of this picture, the next batch goes on with the tile `next`. */
  goOn(picture: StartedPicture, next: number): void {
    if (this.#piece?.picture === picture) this.#close(next);
  }

  filled(): Filled {
    this.#close(null);
    return { items: this.#items, photos: Array.from({ length: this.#rows }, (_, place) => place) };
  }

  #close(next: number | null): void {
    if (!this.#piece) return;
    const { facts, first, tiles, isBegun } = this.#piece;
    this.#items.push({ ...facts, rows: [first, tiles.length], cut: { tiles, isBegun, next } });
    this.#piece = undefined;
  }
}

/** What is known of a picture once tiles of it are loaded. */
function factsOf({ item, index }: StartedPicture, chunk: Chunk): Piece['facts'] {
  const { path, columns } = item;
  const { width, height, marks, stamp: read } = chunk;
  const stamp = joinStamps(read, item.stamp);
  return { index, path, columns, width, height, reduction: 1, marks, stamp, error: null };
}

/** Loads the tiles of pictures ahead of their turn. */
class TileLoader {
  readonly #queue: FeedBatches;
  readonly #plan: FeedPlan;
  readonly #tiles: TilePlan;
  readonly #lanes: DecodeLanes;

  constructor(queue: FeedBatches, plan: FeedPlan, tiles: TilePlan, lanes: DecodeLanes) {
    this.#queue = queue;
    this.#plan = plan;
    this.#tiles = tiles;
    this.#lanes = lanes;
  }

  /** The pictures of the source in order, and its pauses; the first tiles of the next pictures are being loaded. */
  async *pictures(): AsyncGenerator<StartedPicture | typeof PAUSE> {
    const started: StartedPicture[] = [];
    const ahead = Math.max(2, this.#lanes.most);
    let index = 0;
    try {
      for await (const item of this.#queue.items()) {
        if (item !== PAUSE) started.push(this.#start(item, index++));
        while (started.length > (item === PAUSE ? 0 : ahead - 1)) yield started.shift()!;
        if (item === PAUSE) yield PAUSE;
      }
      while (started.length > 0) yield started.shift()!;
    } finally {
      for (const { chunks } of started) chunks.return(undefined).catch(() => undefined);
    }
  }

  #start(item: SourceItem, index: number): StartedPicture {
    const chunks = this.#chunks(item);
    const first = chunks.next();
    // Awaited when its turn comes. Until then, a failure must not count as unhandled.
    first.catch(() => undefined);
    return { item, index, chunks, first };
  }

  /** The tiles of a picture, a few at a time, loaded ahead. */
  async *#chunks(item: SourceItem): AsyncGenerator<Chunk> {
    if (item.error) throw item.error;
    const fileBytes = fileBytesOf(item);
    await this.#queue.files.acquire(fileBytes);
    let picture: LanePicture | undefined;
    // All tiles have one size.
    const bytes = this.#plan.processor.bytes!;
    const spare: Uint8Array[] = [];
    const load = async (from: LanePicture, first: number): Promise<Omit<Chunk, 'next'>> => {
      const room = runLength(this.#tiles.size) * bytes;
      const pixels = spare.pop() ?? new Uint8Array(new SharedArrayBuffer(room));
      return { ...(await this.#lanes.loadTiles(from, first, pixels)), pixels };
    };
    try {
      const image = await fileOf(item);
      const from = (picture = this.#lanes.openPicture(image, this.#tiles));
      const start = item.firstTile ?? 0;
      const first = await load(from, start);
      const grid = new TileGrid(first, this.#tiles);
      const nextOf = (at: number): number => at + grid.run(at).tiles.length;
      const ahead: Promise<Chunk>[] = [];
      let at = nextOf(start);
      yield { ...first, next: at };
      const most = from.isRandom ? this.#lanes.most + 1 : CHUNKS_AHEAD;
      for (;;) {
        for (; at < grid.count && ahead.length < most; at = nextOf(at)) {
          const next = nextOf(at);
          const loading = load(from, at).then((loaded) => ({ ...loaded, next }));
          loading.catch(() => undefined);
          ahead.push(loading);
        }
        const chunk = await ahead.shift();
        if (!chunk) return;
        yield chunk;
        spare.push(chunk.pixels);
      }
    } finally {
      this.#queue.files.release(fileBytes);
      if (picture) this.#lanes.closePicture(picture);
    }
  }
}

/** The chunks of a picture that has been started. */
async function* chunksOf({ first, chunks }: StartedPicture): AsyncGenerator<Chunk> {
  try {
    const { done, value } = await first;
    if (done === true) return;
    yield value;
    yield* chunks;
  } finally {
    await chunks.return(undefined);
  }
}

/** A picture of which no tile is kept. */
function emptyPicture({ path, image }: SourceItem): Error {
  const label = path ?? (typeof image === 'function' ? 'an image' : labelOf(image));
  return allBackground(label);
}
