/** Images in, rows out: the core of embedStream and embedTransformStream. */
import { invalidOption, show, type Options } from '../../base/checks.js';
import { integer, type Field, type Fields } from '../../base/options.js';
import { TapirError } from '../../base/errors.js';
import { hideSecrets } from '../../base/url-names.js';
import { type Extractor } from '../../extract/extractor.js';
import { describeParts } from '../embed/describe-run.js';
import { openDecodeLanes } from '../embed/embed-batches.js';
import {
  EMBED_FIELDS,
  readWithExtractor,
  setUpEmbedding,
  type EmbedOptions,
  type EmbedSetup,
} from '../embed/embed-options.js';
import { embedRecords } from './embed-records.js';
import { rowsOf, type Embedded, type EmbeddedItem } from '../embed/embed-images.js';
import type { EntryPlan } from '../../photos/feeds/items/entries.js';
import { itemOfImage } from '../../photos/feeds/items/item-of-image.js';
import { photoFields } from '../../photos/feeds/photo-options.js';
import type { ImageSource } from '../../photos/images/formats/image-source.js';
import { partsOf } from '../records/dataset-identity.js';
import type { SourceRecord } from '../sources/records/source-record.js';
import type { DType } from '../../onnx/tensor/tensor.js';

/** Why streams have no clips. */
export const ONE_BY_ONE =
  'pictures come one by one; give embedImages or embedFolder a folder of frames, or run what loadClip gives';

/** Options of {@link embedStream} and {@link embedTransformStream}. They refuse `clips`, because pictures come one by one. */
export interface EmbedStreamOptions extends Omit<EmbedOptions, 'column' | 'nulSeparated'> {
  /**
   * The number of inputs that may wait to be read, and of rows that may wait to be taken: an integer from 1 to 65536. Batches in
   * progress are not counted.
   * @default 16
   */
  readonly highWaterMark: number;
  /**
   * Run a partial batch when no input has arrived for this long: an integer from 0 to 3 600 000 milliseconds.
   * @default 50
   */
  readonly maxWaitMs: number;
}

const { column: _column, nulSeparated: _nulSeparated, ...FIELDS } = EMBED_FIELDS;

/** Run a partial batch when the input pauses. */
export const MAX_WAIT: Field<number> = integer(
  0,
  3_600_000,
  50,
  'with --out -: run a partial batch when standard input pauses for this long',
);

export const EMBED_STREAM_FIELDS: Fields<EmbedStreamOptions> = {
  ...FIELDS,
  clips: photoFields({ clips: ONE_BY_ONE }).clips,
  highWaterMark: integer(1, 65_536, 16),
  maxWaitMs: MAX_WAIT,
};

/** An input: a record with an image and the extra fields of its row; or just the image, if rows need no extra fields. */
export type StreamInput<Extra extends object = Record<string, unknown>> =
  ({ readonly image: ImageSource } & Extra) | (Record<never, never> extends Extra ? ImageSource : never);

/** A row: the features of an image or its error, and the extra fields of its record. */
export type StreamRow<
  Key extends string = string,
  Extra extends object = Record<string, unknown>,
  Type extends DType = 'float32',
> = Embedded<Key, Type> & Extra;

/** Fields that every row has; those that are parts of photos have one more. */
const ROW_FIELDS = ['index', 'path', 'features', 'error'] as const;

/** What to do with photos that are given as options. */
const PIPING =
  'pipeline(photos, embedStream(extractor), …) or photos.pipeThrough(embedTransformStream(extractor)); embedImages(extractor, photos) needs no stream';

/** One run of inputs to rows. */
export class RowPipe {
  readonly #inputs = new Handover<SourceRecord<object>>();
  readonly #rows: AsyncGenerator<EmbeddedItem>;
  readonly #stopping = new AbortController();
  readonly #plan: EntryPlan;
  readonly #fields: readonly string[];
  /** The signal of the caller. */
  readonly signal: AbortSignal | undefined;
  readonly highWaterMark: number;

  constructor(extractor: Extractor, given: Options<EmbedStreamOptions>, what: string) {
    if (Symbol.asyncIterator in Object(given) || Symbol.iterator in Object(given))
      throw new TapirError('OPTION_INVALID', `${what} is a stream, and photos go through it: ${PIPING}`, {
        details: { option: what, expected: 'an options object', actual: show(given) },
      });
    const options = readWithExtractor(extractor, EMBED_STREAM_FIELDS, given, what);
    const signal = this.#stopping.signal;
    const setup = setUpEmbedding(extractor, { ...options });
    const parts = partsOf(describeParts(setup));
    this.#fields = parts ? [...ROW_FIELDS, parts] : ROW_FIELDS;
    this.signal = setup.signal;
    this.highWaterMark = options.highWaterMark;
    this.#plan = { ...setup.source, base: '', signal };
    this.#rows = embedInputs(extractor, this.#inputs, { ...setup, signal }, options.maxWaitMs);
  }

  /** Takes an input. Settles when it is being processed. Throws `OPTION_INVALID` for a value that is not an image. */
  async write(input: unknown): Promise<void> {
    await this.#inputs.offer(recordOf(input, this.#plan, this.#fields));
  }

  end(): void {
    this.#inputs.end();
  }

  /** Returns the next row; undefined after the last one. */
  async next(): Promise<EmbeddedItem | undefined> {
    const { done, value } = await this.#rows.next();
    return done === true ? undefined : value;
  }

  /** Abandons the work in progress. Settles when its threads have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the stream was closed'));
    this.#inputs.stop();
    await this.#rows.return(undefined);
  }
}

async function* embedInputs(
  extractor: Extractor,
  inputs: AsyncIterable<SourceRecord<object>>,
  setup: EmbedSetup,
  maxWaitMs: number,
): AsyncGenerator<EmbeddedItem> {
  await using lanes = openDecodeLanes(extractor, setup);
  for await (const batch of embedRecords(extractor, inputs, setup, lanes, maxWaitMs)) {
    let place = 0;
    for (const row of rowsOf(batch)) yield { ...batch.extras[place++]!, ...row };
  }
}

function recordOf(input: unknown, plan: EntryPlan, fields: readonly string[]): SourceRecord<object> {
  const isRecord = typeof input === 'object' && input !== null && 'image' in input;
  const { image, ...extra } = (isRecord ? input : { image: input }) as { readonly image: unknown };
  const item = itemOfImage(image, plan, 'input', true);
  const taken = fields.find((field) => Object.hasOwn(extra, field));
  if (taken !== undefined)
    throw invalidOption('input', `a record without the fields of a row (${fields.join(', ')})`, taken);
  const own =
    typeof plan.name === 'object' ? (extra as Readonly<Record<string, unknown>>)[plan.name.column] : null;
  const isName =
    (typeof own === 'string' && own !== '') || typeof own === 'number' || typeof own === 'bigint';
  return { item: isName ? Object.assign(item, { path: hideSecrets(String(own)) }) : item, extra };
}

interface Offer<Value> {
  readonly value: Value;
  taken(): void;
}

/** A queue without room: the writer of a value waits until the reader takes it. */
export class Handover<Value> implements AsyncIterable<Value> {
  #offer: Offer<Value> | undefined;
  #isEnded = false;
  #wake: (() => void) | undefined;

  /** Offers a value. Settles when the reader has taken it, or has stopped. Offer one value at a time. */
  offer(value: Value): Promise<void> {
    if (this.#isEnded) return Promise.resolve();
    return new Promise((resolve) => {
      this.#offer = { value, taken: resolve };
      this.#wake?.();
    });
  }

  /** Ends the writer's side. The last offer is still taken. */
  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  /** Ends the reader's side. */
  stop(): void {
    this.#offer?.taken();
    this.#offer = undefined;
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Value> {
    try {
      for (;;) {
        const offer = this.#offer;
        if (offer) {
          this.#offer = undefined;
          offer.taken();
          yield offer.value;
        } else if (this.#isEnded) return;
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      }
    } finally {
      this.stop();
    }
  }
}
