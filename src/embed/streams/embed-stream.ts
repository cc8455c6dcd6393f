/** Images through a stream of Node.js. */
import { Duplex } from 'node:stream';
import { callbackify } from 'node:util';
import type { Options } from '../../base/checks.js';
import type { Extractor } from '../../extract/extractor.js';
import { RowPipe, type EmbedStreamOptions, type StreamInput, type StreamRow } from './row-pipe.js';

type Written = (error?: Error | null) => void;

/**
 * A stream in object mode: images go in, rows come out. Rows are typed where they are iterated over; the types of Node.js take
 * strings and bytes for any stream in a pipeline, so these cannot be refused where all are to carry something.
 */
export interface EmbedStream<
  Key extends string = string,
  Extra extends object = Record<string, unknown>,
> extends Duplex {
  write(input: StreamInput<Extra> | string | Uint8Array, callback?: Written): boolean;
  write(
    input: StreamInput<Extra> | string | Uint8Array,
    encoding?: BufferEncoding,
    callback?: Written,
  ): boolean;
  [Symbol.asyncIterator](): NodeJS.AsyncIterator<StreamRow<Key, Extra>>;
  /** As pipelines see it. */
  [Symbol.asyncIterator](): ReturnType<Duplex[typeof Symbol.asyncIterator]>;
}

/**
 * Embeds what is written to a stream: a `Duplex` in object mode, for `pipeline` and `pipe`.
 *
 * Inputs are paths, http(s) or `file:` URLs, the bytes of files, or records `{ image, ...extra }`; a row per input comes out, in
 * their order: `{ index, path, features, ...extra }`, or `{ index, path, error, ...extra }` for an image that cannot be read.
 *
 * @remarks A slow reader slows the writer down: besides the batches that keep decoding and the devices busy, `highWaterMark`
 * inputs and as many rows are held. Destroying the stream, its `signal`, or a failure elsewhere in a pipeline ends its decoding
 * threads; the run that a device is in ends by itself.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param given - See {@link EmbedStreamOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`. The stream fails with `OPTION_INVALID` for what is no image, and those of `run`.
 *
 * @example
 * ```ts
 * import { pipeline } from 'node:stream/promises';
 * import { createFeatureExtractor, embedStream } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * await pipeline([{ image: 'cat.jpg', id: 7 }], embedStream(extractor), async function (rows) {
 *   for await (const { id, features } of rows) console.log(id, features.embedding.dims); // 7 [2048]
 * });
 * await extractor.close();
 * ```
 */
export function embedStream<Key extends string, Extra extends object = Record<string, unknown>>(
  extractor: Extractor<Key>,
  given: Options<EmbedStreamOptions> = {},
): EmbedStream<Key, Extra> {
  const pipe = new RowPipe(extractor, given, 'embedStream');
  const { highWaterMark, signal } = pipe;
  let isReading = false;
  const stop = (): void => void stream.destroy(signal!.reason as Error);
  const stream: Duplex = new Duplex({
    objectMode: true,
    highWaterMark,
    write: (input: unknown, _encoding, done) => callbackify(() => pipe.write(input))(done),
    final: (done) => {
      pipe.end();
      done();
    },
    async read() {
      if (isReading) return;
      isReading = true;
      try {
        for (let isWanted = true; isWanted;) {
          const row = await pipe.next();
          isWanted = stream.push(row ?? null) && row !== undefined;
        }
      } catch (error) {
        // One that was destroyed has its error already.
        stream.destroy(error as Error);
      } finally {
        isReading = false;
      }
    },
    destroy: (error, done) => {
      signal?.removeEventListener('abort', stop);
      callbackify(() => pipe.stop())((failure) => done(error ?? failure));
    },
  });
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop, { once: true });
  return stream as EmbedStream<Key, Extra>;
}
