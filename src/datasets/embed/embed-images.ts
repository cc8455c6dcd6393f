/** Embeds images, one after the other. */
import type { Options } from '../../base/checks.js';
import { type Extractor } from '../../extract/extractor.js';
import { rowsOfInputs } from '../../photos/feeds/tried-input.js';
import type { Tile } from '../../photos/images/pixels/tile-grid.js';
import { takeRow } from '../../onnx/tensor/rows.js';
import { makeTensor, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import { embedBatches, openDecodeLanes, type RunBatch } from './embed-batches.js';
import {
  EMBED_FIELDS,
  readWithExtractor,
  setUpEmbedding,
  type EmbedOptions,
  type EmbedSetup,
} from './embed-options.js';
import type { ImageError } from '../../photos/images/file/image-errors.js';
import { openSource, type EmbedSource } from '../sources/open-source.js';
import type { SourceItems } from '../../photos/feeds/items/source-item.js';

/** The features of an image, of a crop, a tile or a clip; or the error of an image. */
export type Embedded<Key extends string = string, Type extends DType = 'float32'> =
  | {
      /** Position in the source, from 0. */
      readonly index: number;
      /** The path as the source has it, relative for a folder. Null for bytes, Blobs, Responses and streams. */
      readonly path: string | null;
      /** One tensor per output, without the batch axis. */
      readonly features: Record<Key, Tensor<Type>>;
      /** With `cropRows: 'each'`: the number of the crop, from 0. */
      readonly crop?: number;
      /** With `tiles`: what the tile covers. */
      readonly tile?: Tile;
      /** With `clips`: the first frame of the clip, among those of its folder or file. */
      readonly clipStart?: number;
      readonly error?: undefined;
    }
  | {
      readonly index: number;
      readonly path: string | null;
      readonly features?: undefined;
      readonly crop?: undefined;
      readonly tile?: undefined;
      readonly clipStart?: number;
      readonly error: ImageError;
    };

/** The same of an extractor whose outputs the compiler does not know. */
export type EmbeddedItem = Embedded<string, DType>;

/**
 * Embeds images in input order. Decoding, preprocessing and the model overlap.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - A folder, pattern, list or archive, a stream of paths, or images: see {@link EmbedSource}.
 * @param given - See {@link EmbedOptions}.
 * @returns An iterator over `{ index, path, features }`, or `{ index, path, error }` for an image that cannot be read. A feature has
 * the model's dims without the batch axis, and the element type that `run` gives. You own its buffer. With `tiles`, `clips`
 * and `cropRows: 'each'`, each tile, clip or crop comes by itself.
 * @throws {@link TapirError} `OPTION_INVALID`, also if the transform does not fit the model, or for a URL without `allowHttp`;
 * `SOURCE_INVALID`; `TOO_MANY_OPEN_FILES`; those of `run`.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, embedImages } from 'onnx-tapir';
 *
 * const extractor = await createFeatureExtractor('resnet50.onnx', { avgpool: 'embedding' });
 * for await (const { path, features, error } of embedImages(extractor, 'photos')) {
 *   console.log(path, error ? error.code : features.embedding.dims); // 'cat.jpg' [2048]
 * }
 * await extractor.close();
 * ```
 */
export function embedImages<Key extends string, Type extends DType>(
  extractor: Extractor<Key, Type>,
  source: EmbedSource,
  given?: Options<EmbedOptions>,
): AsyncGenerator<Embedded<Key, Type>>;
export async function* embedImages(
  extractor: Extractor,
  source: EmbedSource,
  given: Options<EmbedOptions> = {},
): AsyncGenerator<EmbeddedItem> {
  const setup = setUpEmbedding(extractor, readWithExtractor(extractor, EMBED_FIELDS, given, 'embedImages'));
  yield* embedItems(extractor, openSource(source, setup.source, setup.signal), setup);
}

/** {@link embedImages} of items, as it was set up. */
export async function* embedItems(
  extractor: Extractor,
  items: SourceItems,
  setup: EmbedSetup,
): AsyncGenerator<EmbeddedItem> {
  await using lanes = openDecodeLanes(extractor, setup);
  for await (const batch of embedBatches(extractor, items, setup, lanes)) yield* rowsOf(batch);
}

/** Copies a batch into rows. When the last one is taken, the batch is released. */
export function* rowsOf({ items, features, release }: RunBatch): Generator<EmbeddedItem> {
  for (const { item, row, part } of rowsOfInputs(items)) {
    const { index, path, error } = item;
    const { crop, tile, clipStart } = part;
    const start = clipStart === null ? {} : { clipStart };
    if (error || row === null) yield { index, path, error: error!, ...start };
    else {
      const entries = Object.entries(features).map(([key, tensor]) => [key, copyRow(tensor, row)]);
      yield {
        index,
        path,
        features: Object.fromEntries(entries),
        ...(crop === null ? {} : { crop }),
        ...(tile ? { tile } : {}),
        ...start,
      };
    }
  }
  release();
}

/** Copies a row. A view would keep the whole batch in memory. */
function copyRow(tensor: Tensor, row: number): Tensor {
  const { dtype, dims, data } = takeRow(tensor, row);
  return makeTensor(dtype, dims, data.slice());
}
