/** Many images → features, one after the other. */
import { invalidOption, withDefaults, type Given } from '../checks.js';
import type { Extractor } from '../extract/extractor.js';
import { takeRows } from '../runtime/rows.js';
import type { Tensor } from '../runtime/tensor.js';
import { embedBatches, openDecodeLanes } from './embed-batches.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedOptions } from './embed-options.js';
import type { ImageError } from './loader.js';
import { listImages, type SourceItem } from './source.js';

/** Images to embed: a folder (searched recursively), or paths and file contents in any iterable. */
export type EmbedSource = string | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/** An image's features, or why there are none. */
export type Embedded<Key extends string = string> =
  | {
      /** Position in the source, from 0. */
      readonly index: number;
      /** Path as the source gave it, relative for a folder; null for bytes. */
      readonly path: string | null;
      /** One tensor per output, without the batch axis. */
      readonly features: Record<Key, Tensor>;
      readonly error?: undefined;
    }
  | {
      readonly index: number;
      readonly path: string | null;
      readonly features?: undefined;
      readonly error: ImageError;
    };

/** The items of a source: a folder's images, or what an iterable gives. Throws `OPTION_INVALID`. */
export function itemsOf(source: EmbedSource): AsyncIterable<SourceItem> {
  if (typeof source === 'string') return listImages(source);
  if (
    source === null ||
    typeof source !== 'object' ||
    !(Symbol.iterator in source || Symbol.asyncIterator in source)
  ) {
    throw invalidOption('source', 'a folder, or an iterable of paths or bytes', source);
  }
  if (source instanceof Uint8Array)
    throw invalidOption('source', 'an iterable: put a single image in a list', source);
  return readIterable(source);
}

async function* readIterable(source: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<SourceItem> {
  for await (const image of source) {
    if (image instanceof Uint8Array) yield { path: null, image };
    else if (typeof image === 'string' && image !== '') yield { path: image, image };
    else throw invalidOption('source', 'made of paths or bytes', image);
  }
}

/**
 * Embeds images one after the other, in input order; decoding, preprocessing and the model overlap.
 *
 * @param extractor - From {@link createFeatureExtractor}; it stays open.
 * @param source - A folder (searched recursively, in the order of the paths' bytes), or paths or file contents.
 * @param given - See {@link EmbedOptions}.
 * @returns An iterator over `{ index, path, features }`, or `{ index, path, error }` for an image that cannot be read; each
 * feature has its model's dims without the batch axis, in a buffer of its own.
 * @throws {@link TapirError} `OPTION_INVALID` if the transform does not fit the model; `SOURCE_INVALID`; those of `run`.
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
export async function* embedImages<Key extends string>(
  extractor: Extractor<Key>,
  source: EmbedSource,
  given: Given<EmbedOptions> = {},
): AsyncGenerator<Embedded<Key>> {
  const setup = setUpEmbedding(extractor, withDefaults(EMBED_DEFAULTS, given, 'embedImages'));
  await using lanes = openDecodeLanes(extractor, setup);
  for await (const { items, features } of embedBatches(extractor, itemsOf(source), setup, lanes)) {
    let row = 0;
    for (const { index, path, error } of items) {
      if (error) yield { index, path, error };
      else {
        const entries = Object.entries(features).map(([key, tensor]) => [key, copyRow(tensor, row)]);
        row++;
        // Exactly the extractor's keys.
        yield { index, path, features: Object.fromEntries(entries) as Record<Key, Tensor> };
      }
    }
  }
}

/** One row without its batch axis, in a buffer of its own: a view would keep the whole batch alive. */
function copyRow(tensor: Tensor, row: number): Tensor {
  const { dtype, dims, data } = takeRows(tensor, row, 1);
  return { dtype, dims: dims.slice(1), data: data.slice() };
}
