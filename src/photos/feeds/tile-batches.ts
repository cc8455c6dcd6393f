/**
 * Source items → batches of tiles in shared memory. A batch is full of tiles that are kept, of as many pictures as it takes; a picture
 * that fails has a place, too. So batches depend on the pictures alone, wherever a run begins.
 */
import { labelOf } from '../images/file/image-file.js';
import type { LoadedTiles } from '../images/lanes/decode-protocol.js';
import type { DecodeLanes, LanePicture } from '../images/lanes/decode-lanes.js';
import { runLength, TileGrid, type Tile } from '../images/pixels/tile-grid.js';
import type { TilePlan } from '../images/transform/tile-options.js';
import type { FeedBatch, FeedOptions, Feeds, LoadedItem } from './feed-batches.js';
import { fileOf, type SourceItem, type SourceItems } from './items/source-item.js';
import type { FeedPlan } from './feed-plan.js';
import { allBackground } from '../images/transform/read-tiles.js';
import { PAUSE, withPauses } from './pauses.js';
import { PhotoMemory } from './photo-memory.js';
import { ByteBudget, failedInput, fileBytesOf, joinStamps, MAX_FILE_BYTES } from './read-item.js';

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

/** The source cannot be read any further. */
class SourceFailure extends Error {
  constructor(cause: unknown) {
    super('the source has failed', { cause });
  }
}

/** Chunks that are loaded ahead of a picture that one thread decodes. */
const CHUNKS_AHEAD = 2;

/** Loads the tiles of a source. One caller takes the batches, one after the other. */
export class TileBatches implements Feeds {
  readonly #source: SourceItems;
  readonly #plan: FeedPlan;
  readonly #tiles: TilePlan;
  readonly #lanes: DecodeLanes;
  readonly #batch: number;
  readonly #maxWaitMs: number | undefined;
  readonly #free: PhotoMemory[] = [];
  readonly #files = new ByteBudget(MAX_FILE_BYTES);
  readonly #batches: AsyncGenerator<FeedBatch>;

  constructor(
    source: SourceItems,
    plan: FeedPlan,
    tiles: TilePlan,
    lanes: DecodeLanes,
    { batch, maxWaitMs }: Pick<FeedOptions, 'batch' | 'maxWaitMs'>,
  ) {
    this.#source = source;
    this.#plan = plan;
    this.#tiles = tiles;
    this.#lanes = lanes;
    this.#batch = batch;
    this.#maxWaitMs = maxWaitMs;
    this.#batches = this.#fill();
  }

  async next(): Promise<FeedBatch | undefined> {
    const { done, value } = await this.#batches.next();
    return done === true ? undefined : value;
  }

  stop(): void {
    // A failure while it stops is nobody's: the caller has what it wanted, or another error.
    this.#batches.return(undefined).catch(() => undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FeedBatch> {
    yield* this.#batches;
  }

  async *#fill(): AsyncGenerator<FeedBatch> {
    let filling = this.#begin();
    try {
      for await (const picture of this.#pictures()) {
        if (picture === PAUSE) {
          if (filling.isEmpty) continue;
          yield filling.end();
          filling = this.#begin();
          continue;
        }
        let rows: TileRows | undefined;
        let looked = picture.item.firstTile ?? 0;
        let isBegun = looked > 0;
        try {
          for await (const chunk of chunksOf(picture)) {
            for (const [at, { index, tile }] of chunk.tiles.entries()) {
              if (filling.isFull) {
                rows?.goOn(index);
                yield filling.end();
                filling = this.#begin();
                rows = undefined;
              }
              rows ??= filling.add(picture, chunk, isBegun);
              isBegun = true;
              filling.put(rows, tile, chunk.pixels, at);
            }
            looked = chunk.next;
          }
          if (!isBegun) throw emptyPicture(picture.item);
        } catch (error) {
          const failed = failedInput(picture.item, error);
          if (filling.isFull) {
            rows?.goOn(looked);
            yield filling.end();
            filling = this.#begin();
          }
          const cut = { tiles: [], isBegun: true, next: null };
          filling.fail({ index: picture.index, ...failed, ...(isBegun ? { cut } : {}) });
        }
      }
    } catch (error) {
      if (!(error instanceof SourceFailure)) throw error;
      // What was loaded before is not lost.
      if (!filling.isEmpty) yield filling.end();
      throw error.cause;
    }
    if (!filling.isEmpty) yield filling.end();
  }

  #begin(): FilledBatch {
    const memory = this.#free.pop() ?? new PhotoMemory(this.#plan, this.#batch);
    return new FilledBatch(memory, this.#batch, () => void this.#free.push(memory));
  }

  /**
   * The pictures of the source in order, and its pauses; the first tiles of the next pictures are being loaded. Throws
   * {@link SourceFailure} at the end.
   */
  async *#pictures(): AsyncGenerator<StartedPicture | typeof PAUSE> {
    const started: StartedPicture[] = [];
    const ahead = Math.max(2, this.#lanes.most);
    let failure: SourceFailure | undefined;
    let index = 0;
    let waitingSince: number | undefined;
    const wait = this.#maxWaitMs;
    const source = wait === undefined ? this.#source : withPauses(this.#source, wait, () => waitingSince);
    try {
      try {
        for await (const item of source) {
          if (item === PAUSE) {
            while (started.length > 0) yield started.shift()!;
            waitingSince = undefined;
            yield PAUSE;
            continue;
          }
          waitingSince ??= performance.now();
          started.push(this.#start(item, index++));
          if (started.length >= ahead) yield started.shift()!;
        }
      } catch (error) {
        failure = new SourceFailure(error);
      }
      while (started.length > 0) yield started.shift()!;
    } finally {
      for (const { chunks } of started) chunks.return(undefined).catch(() => undefined);
    }
    if (failure) throw failure;
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
    await this.#files.acquire(fileBytes);
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
      this.#files.release(fileBytes);
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

/** The rows of a picture in a batch that is being filled. */
class TileRows {
  readonly item: LoadedItem & { readonly cut: { readonly tiles: Tile[]; next: number | null } };

  constructor(item: Omit<LoadedItem, 'rows' | 'cut'>, firstRow: number, isBegun: boolean) {
    const tiles: Tile[] = [];
    const rows = { rows: [firstRow, 0] as [number, number], cut: { tiles, isBegun, next: null } };
    this.item = { ...item, ...rows };
  }

  /** Its tiles go on in the next batch, with this one. */
  goOn(tile: number): void {
    this.item.cut.next = tile;
  }
}

/** A batch that is being filled. */
class FilledBatch {
  readonly #memory: PhotoMemory;
  readonly #most: number;
  readonly #release: () => void;
  readonly #items: LoadedItem[] = [];
  #failed = 0;
  #rows = 0;

  constructor(memory: PhotoMemory, most: number, release: () => void) {
    this.#memory = memory;
    this.#most = most;
    this.#release = release;
  }

  get isFull(): boolean {
    return this.#rows + this.#failed >= this.#most;
  }

  get isEmpty(): boolean {
    return this.#items.length === 0;
  }

  /** Adds a picture, without rows so far. */
  add({ item, index }: StartedPicture, chunk: LoadedTiles, isBegun: boolean): TileRows {
    const { width, height, marks, stamp: read } = chunk;
    const stamp = joinStamps(read, item.stamp);
    const { path, columns } = item;
    const facts = { index, path, columns, width, height, reduction: 1, marks, stamp, error: null };
    const rows = new TileRows(facts, this.#rows, isBegun);
    this.#items.push(rows.item);
    return rows;
  }

  /** Adds a tile: the pixels at a place of a chunk. */
  put({ item }: TileRows, tile: Tile, pixels: Uint8Array, at: number): void {
    const place = this.#memory.place(this.#rows++);
    place.set(pixels.subarray(at * place.length, (at + 1) * place.length));
    item.cut.tiles.push(tile);
    (item.rows as [number, number])[1]++;
  }

  fail(item: Omit<LoadedItem, 'rows'>): void {
    this.#items.push({ ...item, rows: [this.#rows, 0] });
    this.#failed++;
  }

  end(): FeedBatch {
    const photos = Array.from({ length: this.#rows }, (_, place) => place);
    return { items: this.#items, memory: this.#memory, photos, release: this.#release };
  }
}
