/** Images in, rows out: what the streams of Node.js and of the web are shells of. */
import { checkInteger, invalidOption, withDefaults, type Options } from '../../base/checks.js';
import type { Extractor } from '../../extract/extractor.js';
import { openDecodeLanes } from '../embed-batches.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions, type EmbedSetup } from '../embed-options.js';
import { embedRecords } from './embed-records.js';
import { rowsOf, type Embedded } from '../embed-images.js';
import type { EntryPlan } from '../../sources/items/entries.js';
import { itemOfImage, type ListedImage } from '../../sources/open-source.js';
import type { SourceRecord } from '../../sources/records/source-record.js';
import { Handover } from './handover.js';

/** Options of {@link embedStream} and {@link embedTransformStream}. */
export interface EmbedStreamOptions extends Omit<EmbedOptions, 'column' | 'nulSeparated'> {
  /**
   * Inputs that are held before they are read, and rows that are held until they are taken, each an integer from 1 to 65536. The
   * batches that are under way come on top.
   * @default 16
   */
  readonly highWaterMark: number;
  /**
   * A batch that is not full runs when no input has come for so long, an integer from 0 to 3 600 000 milliseconds.
   * @default 50
   */
  readonly maxWaitMs: number;
}

const { column: _column, nulSeparated: _nulSeparated, ...DEFAULTS } = EMBED_DEFAULTS;

export const EMBED_STREAM_DEFAULTS: EmbedStreamOptions = { ...DEFAULTS, highWaterMark: 16, maxWaitMs: 50 };

/** What a stream takes: a record of an image and whatever its row shall carry; or the image alone, where rows need not carry more. */
export type StreamInput<Extra extends object = Record<string, unknown>> =
  ({ readonly image: ListedImage } & Extra) | (Record<never, never> extends Extra ? ListedImage : never);

/** What a stream gives: an image's features, or why there are none, and what its record carried. */
export type StreamRow<
  Key extends string = string,
  Extra extends object = Record<string, unknown>,
> = Embedded<Key> & Extra;

/** Fields that every row has. */
const ROW_FIELDS = ['index', 'path', 'features', 'error'] as const;

/** One run of inputs to rows. */
export class RowPipe<Key extends string> {
  readonly #inputs = new Handover<SourceRecord<object>>();
  readonly #rows: AsyncGenerator<Embedded<Key>>;
  readonly #stopping = new AbortController();
  readonly #plan: EntryPlan;
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
  readonly highWaterMark: number;

  /** @throws {@link TapirError} `OPTION_INVALID`. */
  constructor(extractor: Extractor<Key>, given: Options<EmbedStreamOptions>, what: string) {
    const options = withDefaults(EMBED_STREAM_DEFAULTS, given, what);
    const signal = this.#stopping.signal;
    const setup = setUpEmbedding(extractor, { ...EMBED_DEFAULTS, ...options });
    this.signal = setup.signal;
    this.highWaterMark = checkInteger('highWaterMark', options.highWaterMark, 1, 65_536);
    const maxWaitMs = checkInteger('maxWaitMs', options.maxWaitMs, 0, 3_600_000);
    this.#plan = { ...setup.source, base: '', signal };
    this.#rows = embedInputs<Key>(extractor, this.#inputs, { ...setup, signal }, maxWaitMs);
  }

  /**
   * Takes an input; settles when it is on its way.
   *
   * @throws {@link TapirError} `OPTION_INVALID` for anything that is no image.
   */
  async write(input: unknown): Promise<void> {
    await this.#inputs.offer(recordOf(input, this.#plan));
  }

  /** There will be no more inputs. */
  end(): void {
    this.#inputs.end();
  }

  /** The next row; undefined behind the last one. */
  async next(): Promise<Embedded<Key> | undefined> {
    const { done, value } = await this.#rows.next();
    return done === true ? undefined : value;
  }

  /** Gives up what is under way; settles when its threads have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the stream was closed'));
    this.#inputs.stop();
    await this.#rows.return(undefined);
  }
}

async function* embedInputs<Key extends string>(
  extractor: Extractor<Key>,
  inputs: AsyncIterable<SourceRecord<object>>,
  setup: EmbedSetup,
  maxWaitMs: number,
): AsyncGenerator<Embedded<Key>> {
  await using lanes = openDecodeLanes(extractor, setup);
  for await (const batch of embedRecords(extractor, inputs, setup, lanes, maxWaitMs)) {
    let place = 0;
    for (const row of rowsOf<Key>(batch)) yield { ...batch.extras[place++]!, ...row };
  }
}

function recordOf(input: unknown, plan: EntryPlan): SourceRecord<object> {
  const alone = itemOfImage(input, plan);
  if (alone) return { item: alone, extra: {} };
  const isRecord = typeof input === 'object' && input !== null && 'image' in input;
  const { image, ...extra } = (isRecord ? input : {}) as { readonly image?: unknown };
  const item = itemOfImage(image, plan);
  if (!item)
    throw invalidOption('input', 'a path, a URL, bytes, or a record { image, … } of one of these', input);
  const taken = ROW_FIELDS.find((field) => Object.hasOwn(extra, field));
  if (taken !== undefined)
    throw invalidOption('input', `a record without the fields of a row (${ROW_FIELDS.join(', ')})`, taken);
  return { item, extra };
}
