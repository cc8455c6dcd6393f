/** A source without what its dataset already holds. */
import { createHash } from 'node:crypto';
import type { FileStamp } from '../base/file-stamp.js';
import { stampOf } from '../image/file/image-file.js';
import { nameItems, type Named } from '../dataset/input-names.js';
import type { KnownInput, KnownInputs } from '../dataset/known-inputs.js';
import type { SourceItem } from '../sources/items/source-item.js';

/** So many files are looked at together. */
const STAMPS_AT_ONCE = 64;

/** What a source gives. */
export interface PendingOptions {
  /** The source never gives a path twice (a folder): new ones need not be remembered. */
  readonly isUnique: boolean;
  readonly checksum: boolean;
}

/** Splits a source into what is new, and what is to be tried again. */
export class PendingInputs {
  readonly #source: AsyncIterable<SourceItem> | Iterable<SourceItem>;
  readonly #known: KnownInputs;
  readonly #options: PendingOptions;
  /** Failed or changed ones, in the source's order; complete when {@link fresh} has ended. */
  readonly again: Named<SourceItem>[] = [];
  /** Inputs that the dataset holds and that are as they were. */
  skipped = 0;
  /** Inputs that the source gave more than once: each is embedded once. */
  duplicates = 0;

  constructor(
    source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
    known: KnownInputs,
    options: PendingOptions,
  ) {
    this.#source = source;
    this.#known = known;
    this.#options = options;
  }

  /** The inputs that the dataset does not hold, in the source's order. */
  async *fresh(): AsyncGenerator<Named<SourceItem>> {
    const chunk: Named<SourceItem>[] = [];
    for await (const item of nameItems(this.#source)) {
      chunk.push(item);
      // Before there is anything to look up, items go through one by one.
      if (chunk.length >= STAMPS_AT_ONCE || this.#known.size === 0) yield* this.#take(chunk.splice(0));
    }
    yield* this.#take(chunk);
  }

  async *#take(chunk: readonly Named<SourceItem>[]): AsyncGenerator<Named<SourceItem>> {
    const kinds = await Promise.all(chunk.map((item) => this.#classify(item)));
    for (const [at, item] of chunk.entries()) {
      if (kinds[at] === 'fresh') yield item;
      else if (kinds[at] === 'again') this.again.push(item);
      else if (kinds[at] === 'duplicate') this.duplicates++;
      else this.skipped++;
    }
  }

  /** Decided before anything is waited for, so that of two the first is the one that counts. */
  #classify(item: Named<SourceItem>): Promise<Kind> {
    const known = this.#known.find(item.path);
    if (!known) {
      if (!this.#options.isUnique) this.#known.reserve(item.path);
      return Promise.resolve('fresh');
    }
    if (this.#known.markSeen(item.path)) return Promise.resolve('duplicate');
    return known.outcome === 'ok' ? this.#compare(item, known) : Promise.resolve('again');
  }

  async #compare(item: Named<SourceItem>, known: KnownInput): Promise<Kind> {
    const stamp = await this.#stampOf(item);
    return stamp === undefined || known.isAs(stamp) ? 'done' : 'again';
  }

  /** Undefined where nothing can be said: what cannot be looked at any more keeps the features that it has. */
  async #stampOf({ image, stamp, error }: SourceItem): Promise<FileStamp | undefined> {
    if (stamp || error) return stamp;
    if (typeof image === 'function') return undefined;
    if (typeof image === 'string') return stampOf(image, this.#options).catch(() => undefined);
    const sha256 = this.#options.checksum ? createHash('sha256').update(image).digest('hex') : null;
    return { sizeBytes: image.byteLength, modifiedMs: null, sha256 };
  }
}

type Kind = 'fresh' | 'again' | 'done' | 'duplicate';
