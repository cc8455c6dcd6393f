/** An embedding function for LanceDB: images, and texts of CLIP-like models, into vectors. */
import { Float32, type Float } from 'apache-arrow';
import { EmbeddingFunction, register } from '@lancedb/lancedb/embedding';
import { createFeatureExtractor, embedImages, type Device, type FeatureExtractor } from 'onnx-tapir';
import { createTextEncoder, type TextTower } from 'onnx-tapir/features';

/** What a table stores about its embedding function: plain JSON, from which LanceDB makes the function again. */
export interface TapirOptions {
  /** Path of the model; of a pair's image tower (`onnx/vision_model.onnx`, `visual/model.onnx`), or of a file that holds both. */
  readonly model: string;
  /** The node that gives the vector, such as `avgpool` or `image_embeds`. */
  readonly node: string;
  /** What the source column holds: images (paths, URLs of a list with `allowHttp`, or bytes), or texts. @default 'image' */
  readonly source?: 'image' | 'text';
  /** Path of the text tower, if it is not beside the model. */
  readonly textModel?: string;
  /** Preprocessing, as for {@link embedImages}. @default 'auto' */
  readonly transform?: string;
  /** Where models run. @default 'cpu' */
  readonly device?: Device;
}

/** An image: a path, or the bytes of a file. */
export type ImageValue = string | Uint8Array;

/** The towers of one set of options. LanceDB makes a new function for each call on a table; they all share these. */
interface Towers {
  readonly images: FeatureExtractor<'vector'>;
  readonly elements: number;
  /** Opened with the first text. */
  texts: Promise<TextTower> | undefined;
}

const opened = new Map<string, Promise<Towers>>();

/**
 * Computes unit vectors of images and of texts in LanceDB's tables: when rows are added, and for queries. A string as a query is a
 * text; the bytes of an image file are an image.
 *
 * @example
 * ```ts
 * import * as lancedb from '@lancedb/lancedb';
 * import { LanceSchema, getRegistry } from '@lancedb/lancedb/embedding';
 * import { Utf8 } from 'apache-arrow';
 * import 'onnx-tapir-lancedb';
 *
 * const tapir = await getRegistry().get('onnx-tapir')!.create({ model: 'clip/onnx/vision_model.onnx', node: 'image_embeds' });
 * const schema = LanceSchema({ path: tapir.sourceField(new Utf8()), vector: tapir.vectorField() });
 * const db = await lancedb.connect('images.lance');
 * const table = await db.createEmptyTable('images', schema);
 * await table.add([{ path: 'photos/dog.jpg' }]);
 * const hits = await table.search('a dog on grass').limit(4).toArray();
 * ```
 */
export class TapirEmbedding extends EmbeddingFunction<ImageValue, TapirOptions> {
  readonly #options: TapirOptions;
  #towers: Towers | undefined;

  constructor(given: Partial<TapirOptions> = {}) {
    super();
    this.#options = readOptions(this.resolveVariables(given));
  }

  /** Opens the model. LanceDB calls it. */
  override async init(): Promise<void> {
    this.#towers = await open(this.#options);
  }

  override ndims(): number | undefined {
    return this.#towers?.elements;
  }

  override embeddingDataType(): Float {
    return new Float32();
  }

  override async computeSourceEmbeddings(values: ImageValue[]): Promise<Float32Array[]> {
    return this.#options.source === 'text'
      ? this.#ofTexts(values as string[])
      : embed(await open(this.#options), values, this.#options);
  }

  override async computeQueryEmbeddings(value: ImageValue): Promise<Float32Array> {
    const [vector] =
      typeof value === 'string'
        ? await this.#ofTexts([value])
        : await embed(await open(this.#options), [value], this.#options);
    return vector!;
  }

  async #ofTexts(texts: string[]): Promise<Float32Array[]> {
    const { model, textModel = model, device = 'cpu' } = this.#options;
    const towers = await open(this.#options);
    towers.texts ??= createTextEncoder(textModel, { device });
    // A tower that could not be opened is tried again.
    towers.texts.catch(() => (towers.texts = undefined));
    const vectors = await (await towers.texts).encode(texts);
    return vectors.map(normalise);
  }
}

register('onnx-tapir')(TapirEmbedding);

function readOptions({ model, node, ...rest }: Partial<TapirOptions>): TapirOptions {
  if (typeof model === 'string' && typeof node === 'string') return { model, node, ...rest };
  throw new Error(
    "the function takes { model, node }: the path of an ONNX file, and the node that gives the vector, such as { model: 'resnet50.onnx', node: 'avgpool' }",
  );
}

/** Ends the sessions of all functions. They open again when they are needed. */
export async function closeTowers(): Promise<void> {
  const all = [...opened.values()];
  opened.clear();
  for (const each of all) {
    const { images, texts } = await each;
    await images.close();
    await (await texts)?.close();
  }
}

function open(options: TapirOptions): Promise<Towers> {
  const { model, node, device = 'cpu', textModel } = options;
  const key = JSON.stringify([model, node, device, textModel]);
  const known = opened.get(key);
  if (known) return known;
  const opening = openTowers(model, node, device);
  opened.set(key, opening);
  // A model that could not be opened is tried again.
  opening.catch(() => opened.delete(key));
  return opening;
}

async function openTowers(model: string, node: string, device: Device): Promise<Towers> {
  const images = await createFeatureExtractor(model, { [node]: 'vector' } as const, { device });
  const dims = images.outputs[0]!.dims?.slice(1) ?? [];
  const elements = dims.reduce<number>((product, size) => product * Number(size), 1);
  if (dims.slice(1).every((size) => size === 1) && Number.isInteger(elements))
    return { images, elements, texts: undefined };
  await images.close();
  throw new Error(
    `"${node}" gives [${images.outputs[0]!.dims?.join(', ') ?? '?'}], and a column holds one vector per image: choose a pooled node, or cut the model with "tapir extract --pool avg"`,
  );
}

async function embed(
  { images }: Towers,
  values: readonly ImageValue[],
  { transform = 'auto' }: TapirOptions,
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for await (const { path, features, error } of embedImages(images, [...values], { transform })) {
    if (error) throw new Error(`${path ?? 'an image'}: ${error.message}`);
    vectors.push(normalise(features.vector.data));
  }
  return vectors;
}

/** To length 1, so that the default distance of LanceDB orders as the cosine does. A vector of zeros stays. */
function normalise(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? vector : vector.map((value) => value / length);
}
