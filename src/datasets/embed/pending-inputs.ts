/**
 * The inputs of a source that a run must embed: those that the dataset does not hold, those that failed or changed, and those that
 * are back after they were removed.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { digestOf } from '../../base/digest.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { stampNow, stampOf } from '../../photos/images/file/image-file.js';
import { stampOfFrames } from '../../photos/feeds/load-frames.js';
import { identityOfItem, nameItems, type Named } from '../records/input-names.js';
import type { KnownInput, KnownInputs } from '../records/known-inputs.js';
import { RowNames } from '../records/row-names.js';
import type { SourceItem, SourceItems } from '../../photos/feeds/items/source-item.js';

/** The number of files that are looked at at the same time. */
const STAMPS_AT_ONCE = 64;

/** A file whose status takes longer lies on another machine: then many are asked for at the same time. */
const SLOW_MS = 1;

/** How the inputs of a source are compared with the dataset. */
export interface PendingOptions {
  /** The source, such as a folder, never repeats a path. Then new inputs need not be remembered. */
  readonly isUnique: boolean;
  readonly checksum: boolean;
  /** Pictures of which the dataset has not all tiles, and the tile at which each goes on. */
  readonly unfinished?: ReadonlyMap<string, number>;
  /** Gives the inputs of the source once more, if it can be read twice: files are then compared when new inputs have been given. */
  readonly reread?: (() => AsyncIterable<SourceItem>) | undefined;
}

const EMPTY = new Uint8Array();

/** Splits a source into new inputs and inputs to try again. */
export class PendingInputs {
  readonly #source: SourceItems;
  readonly #known: KnownInputs;
  readonly #options: PendingOptions;
  readonly #names: RowNames;
  readonly #again: Named<SourceItem>[] = [];
  /** Of bytes: clips share frames and files. */
  readonly #digests = new WeakMap<Uint8Array, string>();
  /** Whether the source must be read again: files are not compared yet, or bytes of {@link #again} were let go, which could be as many as it has. */
  #isReread = false;
  /** Whether the status of a file is there at once. To wait for a million answers takes longer than to ask in turn. */
  #isNear = true;
  /** The number of inputs that the dataset holds unchanged. */
  skipped = 0;
  /** The number of inputs of the dataset that the source has, without those that were removed before. */
  found = 0;
  /** Those of them that were embedded before. */
  foundOk = 0;
  /** The number of inputs that the source repeated. Each is embedded once. */
  duplicates = 0;
  /** The number of inputs that were embedded before, from another file under the same name. */
  changed = 0;

  constructor(source: SourceItems, known: KnownInputs, options: PendingOptions) {
    this.#source = source;
    this.#known = known;
    this.#options = options;
    this.#names = new RowNames(known);
  }

  /** Gives the inputs that the dataset does not hold, or not all tiles of, in the source's order. */
  async *fresh(): AsyncGenerator<Named<SourceItem>> {
    const chunk: Named<SourceItem>[] = [];
    // Without known inputs there is nothing to look up: items pass one by one.
    const most = this.#known.size === 0 ? 1 : STAMPS_AT_ONCE;
    for await (const item of nameItems(this.#source)) {
      chunk.push(this.#hashed(item));
      // Bytes pass at once: memory has no room for those of many images.
      if (chunk.length >= most || item.image instanceof Uint8Array) yield* this.#take(chunk.splice(0));
    }
    yield* this.#take(chunk);
  }

  /** Gives the inputs that failed, changed or are back, in the source's order. Call it when {@link fresh} has ended. */
  async *again(): AsyncGenerator<Named<SourceItem>> {
    const { reread } = this.#options;
    if (!this.#isReread || !reread) return yield* this.#again;
    const names = new Set(this.#again.map(identityOfItem));
    let chunk: Named<SourceItem>[] = [];
    for await (const item of nameItems(reread())) {
      chunk.push(item);
      if (chunk.length < STAMPS_AT_ONCE && !(item.image instanceof Uint8Array)) continue;
      yield* this.#review(chunk, names);
      chunk = [];
    }
    yield* this.#review(chunk, names);
  }

  /** Gives those of some inputs that are to be tried again, and those that differ from what the dataset holds. */
  async *#review(chunk: readonly Named<SourceItem>[], names: Set<string>): AsyncGenerator<Named<SourceItem>> {
    const kinds = await this.#inTurn(chunk, (item) => {
      const name = identityOfItem(item);
      if (names.delete(name)) return 'fresh';
      const known = this.#known.find(name);
      const isDue = known?.isSeen === true && known.outcome === 'ok' && this.#isComparedLater(item);
      return isDue ? this.#compare(item, known) : 'done';
    });
    for (const [at, item] of chunk.entries()) {
      const classified = kinds[at]!;
      const kind = typeof classified === 'string' ? classified : await classified;
      // It was taken for unchanged.
      if (kind === 'again') this.skipped--;
      if (kind === 'again' || kind === 'fresh') yield this.#hashed(item);
    }
  }

  /** Looks at some inputs one after the other. */
  async #inTurn<Item>(
    chunk: readonly Item[],
    look: (item: Item) => Kind | Promise<Kind>,
  ): Promise<(Kind | Promise<Kind>)[]> {
    // Many files may be looked at without another wait: messages, signals and timers have their turn.
    await nextTurn();
    const since = performance.now();
    const kinds = chunk.map(look);
    this.#isNear &&= performance.now() - since < SLOW_MS * Math.max(1, chunk.length);
    return kinds;
  }

  async *#take(chunk: readonly Named<SourceItem>[]): AsyncGenerator<Named<SourceItem>> {
    const items: Named<SourceItem>[] = [];
    const kinds = await this.#inTurn(chunk, (given) => {
      const item = this.#names.nameOwn(given);
      items.push(item);
      return this.#classify(item);
    });
    for (const [at, item] of items.entries()) {
      const classified = kinds[at]!;
      const kind = typeof classified === 'string' ? classified : await classified;
      if (kind === 'fresh') yield item;
      else if (kind === 'rest') yield { ...item, firstTile: this.#options.unfinished!.get(item.path)! };
      else if (kind === 'again') this.#keep(item);
      else if (kind === 'duplicate') this.duplicates++;
      else this.skipped++;
    }
  }

  #keep(item: Named<SourceItem>): void {
    const isLetGo = this.#options.reread !== undefined && item.image instanceof Uint8Array;
    this.#isReread ||= isLetGo;
    const clip = item.clip && { clip: { start: item.clip.start } };
    this.#again.push(isLetGo ? { ...item, image: EMPTY, ...clip } : item);
  }

  /** Looks up the input before it awaits anything, so that the first of two repetitions counts. */
  #classify(item: Named<SourceItem>): Kind | Promise<Kind> {
    const name = identityOfItem(item);
    const known = this.#known.find(name);
    if (!known) {
      if (!this.#options.isUnique) this.#known.reserve(name);
      return 'fresh';
    }
    if (this.#known.markSeen(name)) return 'duplicate';
    if (known.outcome !== 'removed') this.found++;
    if (known.outcome === 'ok') this.foundOk++;
    if (known.outcome !== 'ok') return 'again';
    if (!this.#isComparedLater(item)) return this.#compare(item, known);
    this.#isReread = true;
    return 'done';
  }

  /** The status of a million files takes seconds, for which new inputs need not wait. */
  #isComparedLater({ path, image, clip, stamp, error }: Named<SourceItem>): boolean {
    const { reread, unfinished } = this.#options;
    const isFile = typeof image === 'string' && !clip && !stamp && !error;
    return isFile && reread !== undefined && unfinished?.has(path) !== true;
  }

  #compare(item: Named<SourceItem>, known: KnownInput): Kind | Promise<Kind> {
    const { image, clip, stamp, error } = item;
    const isFile = typeof image === 'string' && !clip && !stamp && !error;
    return isFile && this.#isNear && !this.#options.checksum
      ? this.#judge(item, known, stampNow(image))
      : this.#stampOf(item).then((one) => this.#judge(item, known, one));
  }

  #judge(item: Named<SourceItem>, known: KnownInput, stamp: FileStamp | undefined): Kind {
    if (stamp === undefined || known.isAs(stamp))
      return this.#options.unfinished?.has(item.path) ? 'rest' : 'done';
    this.changed++;
    return 'again';
  }

  /** Returns undefined if the stamp cannot be taken. An input that cannot be looked at any more keeps its features. */
  async #stampOf({ image, stamp, error, clip }: SourceItem): Promise<FileStamp | undefined> {
    // Also of a clip that fails now: a frame of it may be gone.
    if (clip?.files) {
      const stamps = await Promise.all(clip.files.map((file) => this.#stampOf(file)));
      return stamps.includes(undefined) ? undefined : stampOfFrames(stamps as FileStamp[]);
    }
    const { checksum } = this.#options;
    // A file with too few pages for a clip can be looked at.
    const isOut = error !== undefined && !clip;
    if (checksum && !isOut && image instanceof Uint8Array) return this.#stampOfBytes(image, stamp);
    if (stamp || isOut) return stamp;
    if (typeof image === 'function') return undefined;
    return typeof image === 'string'
      ? stampOf(image, { checksum }).catch(() => undefined)
      : this.#stampOfBytes(image, stamp);
  }

  /** Adds the digest of bytes in memory that have no time: their size alone does not show a change. With a checksum, threads hash. */
  #hashed(item: Named<SourceItem>): Named<SourceItem> {
    if (this.#options.checksum) return item;
    const hash = <Item extends SourceItem>(file: Item): Item =>
      file.image instanceof Uint8Array && !file.error && (file.stamp?.modifiedMs ?? null) === null
        ? { ...file, stamp: this.#stampOfBytes(file.image, file.stamp) }
        : file;
    const { clip } = item;
    return clip?.files ? { ...item, clip: { ...clip, files: clip.files.map(hash) } } : hash(item);
  }

  #stampOfBytes(bytes: Uint8Array, listed: FileStamp | undefined): FileStamp {
    const sha256 = this.#digests.get(bytes) ?? digestOf(bytes);
    this.#digests.set(bytes, sha256);
    return { sizeBytes: bytes.byteLength, modifiedMs: listed?.modifiedMs ?? null, sha256 };
  }
}

/** `rest`: the tiles that the dataset has not. */
type Kind = 'fresh' | 'rest' | 'again' | 'done' | 'duplicate';
