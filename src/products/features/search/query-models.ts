/** What embeds the images and texts of queries for a dataset. */
import { modelPathOf, type OnnxModel } from '../../../run/model/open/open-model.js';
import { openRecordedModel, readRecordedModel } from '../../../datasets/embed/recorded-model.js';
import { readCut, readRecipe } from '../../../datasets/embed/recorded-recipe.js';
import { invalidOption } from '../../../base/checks.js';
import { elementCount, type Tensor } from '../../../onnx/tensor/tensor.js';
import { floatsOf } from '../../../onnx/tensor/widen.js';
import { unitVector } from '../../../onnx/tensor/vectors/unit-vector.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { createTransform } from '../../../photos/feeds/create-transform.js';
import { embedImages } from '../../../datasets/embed/embed-images.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { ImageSource } from '../../../photos/images/formats/image-source.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import type { Extractor } from '../../../extract/extractor.js';
import { createTextEncoder, type TextTower } from '../text/text-encoder.js';

/** How queries are embedded. */
export interface QueryModelOptions {
  /** Output key. */
  readonly key: string;
  /** The model that made the dataset, or its path. */
  readonly model: string | OnnxModel | undefined;
  /** Path of the text tower; undefined for the one beside `model`. */
  readonly textModel: string | undefined;
  readonly device: Device;
}

/** The models of queries. Each is opened when it is first needed, and stays open until {@link QueryModels.close}. */
export class QueryModels {
  readonly #dataset: Dataset;
  readonly #options: QueryModelOptions;
  #extractor: Promise<Extractor> | undefined;
  #tower: Promise<TextTower> | undefined;

  constructor(dataset: Dataset, options: QueryModelOptions) {
    this.#dataset = dataset;
    this.#options = options;
  }

  /** Number of elements of a vector. */
  get elements(): number {
    return elementCount(this.#dataset.manifest.features[this.#options.key]!.dims);
  }

  /**
   * Embeds images as the dataset's manifest records: with the same model (compared by SHA-256), request and transform.
   *
   * @param images - Photos; URLs are fetched.
   * @returns One vector per image, in order.
   * @throws {@link TapirError} `OPTION_INVALID` without the model, and if its vectors differ in length from the dataset's;
   * `CHECKSUM_MISMATCH` for another model; `IMAGE_*` for an image that cannot be read; errors of {@link createFeatureExtractor}.
   */
  async embedImages(images: readonly ImageSource[], signal?: AbortSignal): Promise<Float32Array[]> {
    if (images.length === 0) return [];
    checkPhotos(this.#dataset, images);
    const { key } = this.#options;
    const transform = createTransform(readRecipe(this.#dataset, key).transform);
    const dims = readCut(this.#dataset);
    const extractor = await (this.#extractor ??= this.#openExtractor());
    const vectors: Float32Array[] = [];
    const options = { transform, dims, signal, allowHttp: true };
    for await (const { features, error } of embedImages(extractor, images, options)) {
      if (error) throw error;
      vectors.push(toVector(features[key]!, this.elements));
    }
    return vectors;
  }

  /**
   * Embeds texts, with `textModel`, or the text tower beside `model`, which must be the model of the dataset.
   *
   * @returns One vector per text, in order.
   * @throws {@link TapirError} `OPTION_INVALID` without a model, and if the vectors of texts and images differ in length; errors of
   * {@link createTextEncoder}.
   */
  async embedTexts(texts: readonly string[], signal?: AbortSignal): Promise<Float32Array[]> {
    if (texts.length === 0) return [];
    const tower = await (this.#tower ??= openQueryTower(this.#dataset, this.#options, 'given for texts'));
    const vectors = await tower.encode(texts, { signal });
    if (vectors.every(({ length }) => length === this.elements)) return vectors;
    const outputs = tower.model.outputs.map(({ name }) => name).join(', ');
    throw invalidOption(
      'textModel',
      `a text tower whose vectors have ${this.elements} elements, as "${this.#options.key}" of the dataset has`,
      `${vectors[0]!.length} from output "${tower.output}" (it has ${outputs})`,
    );
  }

  /** Ends the sessions. */
  async close(): Promise<void> {
    for (const opened of await Promise.allSettled([this.#extractor, this.#tower]))
      // oxlint-disable-next-line no-await-in-loop -- two at most
      if (opened.status === 'fulfilled') await opened.value?.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #openExtractor(): Promise<Extractor> {
    const { key, model, device } = this.#options;
    if (model === undefined)
      throw invalidOption('model', 'given for images: the file that the dataset was made with', model);
    const recipe = readRecipe(this.#dataset, key);
    const opened = await openRecordedModel(recipe, model);
    return createFeatureExtractor(opened, [[recipe.request, key]], {
      device,
      ...recipe.parts,
      outputDtype: 'keep',
    });
  }
}

/** Refuses new photos for a dataset of clips. Throws `OPTION_INVALID`. */
export function checkPhotos({ manifest }: Dataset, [image]: readonly unknown[]): void {
  if (image === undefined || !manifest.run?.clips) return;
  throw invalidOption(
    'images',
    'left out for a dataset of clips, which images cannot query: name a clip that it has (tapir search --path), or in code give searchDataset the vector of a new one (loadClip)',
    image,
  );
}

/** Opens a text tower, or the one beside the model of a dataset; its vectors are cut as those of the dataset are. `expected` says when it must be given. */
export async function openQueryTower(
  dataset: Dataset,
  { model, textModel, device }: Omit<QueryModelOptions, 'key'>,
  expected: string,
): Promise<TextTower> {
  const path = textModel ?? (typeof model === 'object' ? modelPathOf(model) : model);
  if (path === undefined)
    throw invalidOption(
      'textModel',
      `${expected}, or the image model beside its text tower as option "model"`,
      path,
    );
  // The tower beside another image model would give vectors of another space.
  if (textModel === undefined) await openRecordedModel(readRecordedModel(dataset), model!);
  const tower = await createTextEncoder(path, { device });
  const dims = readCut(dataset);
  if (dims === undefined) return tower;
  const encode: TextTower['encode'] = async (...given) =>
    (await tower.encode(...given)).map((vector) => unitVector(vector.subarray(0, dims)));
  return { ...tower, encode };
}

function toVector(tensor: Tensor, elements: number): Float32Array {
  const vector = floatsOf(tensor) ?? new Float32Array();
  if (vector.length === elements) return vector;
  const expected = `one that gives ${elements} elements per image, as the dataset holds`;
  throw invalidOption('model', expected, vector.length);
}
