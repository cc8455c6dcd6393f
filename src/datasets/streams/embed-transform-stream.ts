/** Embedding as a pair of web streams. */
import { ReadableStream, WritableStream } from 'node:stream/web';
import type { Options } from '../../base/checks.js';
import type { Extractor } from '../../extract/extractor.js';
import type { EmbeddedItem } from '../embed/embed-images.js';
import type { DType } from '../../onnx/tensor/tensor.js';
import { RowPipe, type EmbedStreamOptions, type StreamInput, type StreamRow } from './row-pipe.js';

/** Two ends, as a `TransformStream` has them: images go in, rows come out. */
export interface EmbedTransformStream<
  Key extends string = string,
  Extra extends object = Record<string, unknown>,
  Type extends DType = 'float32',
> {
  readonly writable: WritableStream<StreamInput<Extra>>;
  readonly readable: ReadableStream<StreamRow<Key, Extra, Type>>;
}

/**
 * {@link embedStream} for web streams: `images.pipeThrough(embedTransformStream(extractor))`.
 *
 * @remarks Cancelling the readable end, aborting the writable end, or the `signal` ends the decoding threads. Both ends then fail.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param given - See {@link EmbedStreamOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`. The ends fail with the errors of {@link embedStream}.
 *
 * @example
 * ```ts
 * import { ReadableStream } from 'node:stream/web';
 * import { createFeatureExtractor, embedTransformStream } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * const images = ReadableStream.from(['cat.jpg', 'dog.jpg']);
 * for await (const { path, features } of images.pipeThrough(embedTransformStream(extractor)))
 *   console.log(path, features?.embedding.dims); // 'cat.jpg' [2048]
 * await extractor.close();
 * ```
 */
export function embedTransformStream<
  Key extends string,
  Extra extends object = Record<string, unknown>,
  Type extends DType = 'float32',
>(
  extractor: Extractor<Key, Type>,
  given?: Options<EmbedStreamOptions>,
): EmbedTransformStream<Key, Extra, Type>;
export function embedTransformStream(
  extractor: Extractor,
  given: Options<EmbedStreamOptions> = {},
): EmbedTransformStream<string, object, DType> {
  const pipe = new RowPipe(extractor, given, 'embedTransformStream');
  const { highWaterMark, signal } = pipe;
  /** How to fail each end that is still open. */
  const ends = new Map<'writable' | 'readable', (reason: unknown) => void>();
  const close = async (reason: unknown): Promise<void> => {
    signal?.removeEventListener('abort', onAbort);
    for (const fail of ends.values()) fail(reason);
    ends.clear();
    await pipe.stop();
  };
  const onAbort = (): void => void close(signal!.reason);
  const writable = new WritableStream<StreamInput<object>>(
    {
      start: (controller) => void ends.set('writable', (reason) => controller.error(reason)),
      async write(input) {
        try {
          await pipe.write(input);
        } catch (error) {
          await close(error);
          throw error;
        }
      },
      close() {
        ends.delete('writable');
        pipe.end();
      },
      abort(reason) {
        ends.delete('writable');
        return close(reason);
      },
    },
    { highWaterMark },
  );
  const readable = new ReadableStream<EmbeddedItem>(
    {
      start: (controller) => void ends.set('readable', (reason) => controller.error(reason)),
      async pull(controller) {
        try {
          const row = await pipe.next();
          // The other end may have failed meanwhile, and this one with it.
          if (!ends.has('readable')) return;
          if (row) {
            controller.enqueue(row);
            return;
          }
          ends.delete('readable');
          controller.close();
          signal?.removeEventListener('abort', onAbort);
        } catch (error) {
          await close(error);
        }
      },
      cancel(reason) {
        ends.delete('readable');
        return close(reason);
      },
    },
    { highWaterMark },
  );
  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  return { writable, readable };
}
