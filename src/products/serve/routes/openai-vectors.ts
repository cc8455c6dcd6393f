/** Items → vectors of length 1, images and texts in one list. */
import { unitVector } from '../../../onnx/tensor/vectors/unit-vector.js';
import type { ServiceContext } from './context.js';
import { fetchImages, tooManyImages, type SentImage } from '../bodies/embed-body.js';
import { isAboutImage } from '../http/http-error.js';
import { FieldError } from '../http/openai-error.js';
import type { RequestState } from '../http/requests.js';
import type { ImageFeatures } from '../batches/image-batcher.js';
import type { EmbeddingItem, EmbeddingRequest } from '../bodies/openai-input.js';
import type { EncodedText } from '../batches/text-batcher.js';
import { listVectorOutputs, toFloats, type VectorOutput } from '../batches/vector-outputs.js';

/** The output that a model's name stands for: `NAME/OUTPUT`, or `NAME` if only one output has vectors. Throws {@link FieldError}. */
export function chooseOutput(
  { setup: { name }, sample }: Pick<ServiceContext, 'setup' | 'sample'>,
  model: string | undefined,
): VectorOutput {
  const outputs = listVectorOutputs(sample);
  const names = outputs.map(({ key }) => `"${name}/${key}"`).join(', ');
  if (model === undefined || model === name) {
    if (outputs.length === 1) return outputs[0]!;
    throw new FieldError(
      'model',
      outputs.length > 1
        ? `the model has several outputs with vectors; name one of them: ${names}`
        : 'the model has no output with one vector per image; serve a pooled one (tapir serve --pool avg)',
    );
  }
  const found = outputs.find(({ key }) => model === `${name}/${key}`);
  if (found) return found;
  const unpooled = Object.keys(sample).find((key) => model === `${name}/${key}`);
  if (unpooled !== undefined)
    throw new FieldError(
      'model',
      `output "${unpooled}" has no single vector per image; serve a pooled one (tapir serve --pool avg)`,
    );
  const known = [`"${name}"`, ...(names === '' ? [] : [names])].join(', ');
  throw new FieldError(
    'model',
    `the model ${JSON.stringify(model)} does not exist; there is ${known}`,
    'NOT_FOUND',
  );
}

/** The vectors of a request, and the number of tokens of its texts. */
export interface Embedded {
  readonly vectors: readonly Float32Array[];
  readonly tokens: number;
}

/** Embeds items, in order; `dimensions` cuts vectors before they get length 1. Throws {@link FieldError} for the first that cannot be embedded. */
export async function embedItems(
  context: ServiceContext,
  { items, dimensions }: Pick<EmbeddingRequest, 'items' | 'dimensions'>,
  output: VectorOutput,
  state: RequestState,
): Promise<Embedded> {
  checkItems(context, items, output);
  const rows = await startRows(context, items, state);
  const settled = await Promise.allSettled(rows);
  let tokens = 0;
  const vectors = settled.map((one, index) => {
    if (one.status === 'rejected') throw itemError(one.reason, items[index]!);
    if ('vector' in one.value) {
      tokens += one.value.tokens;
      return unitVector(one.value.vector.subarray(0, dimensions));
    }
    return unitVector(toFloats(one.value.features[output.key]!).subarray(0, dimensions));
  });
  return { vectors, tokens };
}

function checkItems(
  { setup, texts }: ServiceContext,
  items: readonly EmbeddingItem[],
  { key, elements }: VectorOutput,
): void {
  const text = items.find(({ type }) => type === 'text');
  if (text && !texts)
    throw new FieldError(
      text.param,
      'this service has no text tower (tapir serve --text-model); send images, as { "image": … } or as data URIs',
    );
  if (text && texts!.elements !== elements)
    throw new FieldError(
      'model',
      `texts have ${texts!.elements} elements and output "${key}" has ${elements}: they do not lie in one space`,
    );
  const images = items.filter(({ type }) => type !== 'text').length;
  if (images > setup.maxImages) throw tooManyImages(setup.maxImages);
}

/** A text's vector, or an image's features. */
type Row = EncodedText | { readonly features: ImageFeatures };

/** Puts all items in the queues. */
async function startRows(
  { setup, batcher, texts, metrics }: ServiceContext,
  items: readonly EmbeddingItem[],
  state: RequestState,
): Promise<Promise<Row>[]> {
  const sentTexts = items.flatMap((item) => (item.type === 'text' ? item.text : []));
  const sentUrls = items.flatMap((item) => (item.type === 'url' ? item.url : []));
  const fetched = sentUrls.length > 0 ? await fetchImages(sentUrls, setup, state) : [];
  const sentImages = items.flatMap((item) => imageOf(item, fetched));
  const encoded = texts && sentTexts.length > 0 ? texts.batcher.add(sentTexts, state.signal) : [];
  const embedded = batcher.add(
    sentImages.flatMap(({ bytes }) => bytes ?? []),
    state.signal,
  );
  const images = sentImages.map(({ bytes, error }) =>
    bytes ? embedded.shift()! : Promise.reject<ImageFeatures>(error!),
  );
  void Promise.allSettled(images).then((all) => all.forEach((one) => metrics.image(one)));
  void Promise.allSettled(encoded).then((all) => all.forEach((one) => metrics.text(one)));
  return items.map(({ type }) =>
    type === 'text' ? encoded.shift()! : images.shift()!.then((features) => ({ features })),
  );
}

function imageOf(item: EmbeddingItem, fetched: SentImage[]): SentImage[] {
  if (item.type === 'image') return [{ name: null, bytes: item.bytes, error: null }];
  return item.type === 'url' ? [fetched.shift()!] : [];
}

function itemError(error: unknown, { param }: EmbeddingItem): unknown {
  if (!isAboutImage(error)) return error;
  return new FieldError(param, `${param}: ${error.message}`, 'REQUEST_INVALID', error);
}
