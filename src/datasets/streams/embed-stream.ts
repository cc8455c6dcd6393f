/** Embedding as a stream of Node.js. */
import { Duplex } from 'node:stream';
import { callbackify } from 'node:util';
import type { Options } from '../../base/checks.js';
import type { Extractor } from '../../extract/extractor.js';
import type { DType } from '../../onnx/tensor/tensor.js';
import { RowPipe, type EmbedStreamOptions, type StreamInput, type StreamRow } from './row-pipe.js';

export type Written = (error?: Error | null) => void;

/**
 * A stream in object mode: images go in, rows come out. Iterating gives typed rows. In a pipeline the types of Node.js allow strings
 * and bytes for any stream, so the compiler cannot require records there.
 */
export interface EmbedStream<
  Key extends string = string,
  Extra extends object = Record<string, unknown>,
  Type extends DType = 'float32',
> extends Duplex {
  write(input: StreamInput<Extra> | string | Uint8Array, callback?: Written): boolean;
  write(
    input: StreamInput<Extra> | string | Uint8Array,
    encoding?: BufferEncoding,
    callback?: Written,
  ): boolean;
  [Symbol.asyncIterator](): NodeJS.AsyncIterator<StreamRow<Key, Extra, Type>>;
  /** The type that pipelines use. */
  [Symbol.asyncIterator](): ReturnType<Duplex[typeof Symbol.asyncIterator]>;
}

/**
 * Embeds the images that are written to a stream: a `Duplex` in object mode, for `pipeline` and `pipe`.
 *
 * An input is an image ({@link ImageSource}; http(s) URLs too) or a record `{ image, ...extra }`. Each input gives one row, in order: `{ index, path, features, ...extra }`, or
 * `{ index, path, error, ...extra }` for an image that cannot be read.
 *
 * @remarks A slow reader slows the writer down. Besides the batches that keep the decoding threads and the devices busy, the stream
 * holds `highWaterMark` inputs and as many rows. Destroying the stream, its `signal`, or a failure elsewhere in a pipeline ends the
 * decoding threads; a run on a device finishes first.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param given - See {@link EmbedStreamOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`. The stream fails with `OPTION_INVALID` for a value that is not an image, and with the
 * errors of `run`.
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
export function embedStream<
  Key extends string,
  Extra extends object = Record<string, unknown>,
  Type extends DType = 'float32',
>(extractor: Extractor<Key, Type>, given?: Options<EmbedStreamOptions>): EmbedStream<Key, Extra, Type>;
export function embedStream(extractor: Extractor, given: Options<EmbedStreamOptions> = {}): Duplex {
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
        // A stream that was destroyed has its error already.
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
  return stream;
}
