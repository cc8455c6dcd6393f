/** The body of `POST /v1/embeddings`: OpenAI's fields, and the ways in which other services' clients send images. */
import { isPlainObject } from '../../../base/checks.js';
import { readBase64 } from '../../../base/read-base64.js';
import { FieldError } from '../http/openai-error.js';
import { MAX_TEXT_LENGTH, MAX_TEXTS } from '../batches/text-batcher.js';

/** What a vector is made from. `param` is the field that holds it. */
export type EmbeddingItem = { readonly param: string } & (
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly bytes: Uint8Array }
  | { readonly type: 'url'; readonly url: string }
);

export interface EmbeddingRequest {
  /** Name of the model, with or without an output; undefined if left out. */
  readonly model: string | undefined;
  readonly items: readonly EmbeddingItem[];
  /** JSON numbers, or the bytes of float32 in base64. */
  readonly format: 'float' | 'base64';
  /** Number of elements that vectors are cut to; undefined for all. */
  readonly dimensions: number | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads a body, a JSON object. Fields that are not known are ignored. Throws {@link FieldError}. */
export function readEmbeddingRequest(body: Fields): EmbeddingRequest {
  const { model, encoding_format: format, dimensions } = body;
  if (!isLeftOut(model) && typeof model !== 'string') throw new FieldError('model', 'model must be a string');
  // Python's clients send null for what is left out.
  if (!isLeftOut(format) && format !== 'float' && format !== 'base64')
    throw new FieldError('encoding_format', 'encoding_format must be "float" or "base64"');
  if (!isLeftOut(dimensions) && !(Number.isSafeInteger(dimensions) && (dimensions as number) > 0))
    throw new FieldError('dimensions', 'dimensions must be a positive integer');
  return {
    model: model ?? undefined,
    items: readItems(body),
    format: format ?? 'float',
    dimensions: (dimensions as number | null) ?? undefined,
  };
}

function isLeftOut(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function readItems(body: Fields): EmbeddingItem[] {
  const { modality, messages } = body;
  if (!isLeftOut(modality) && modality !== 'text' && modality !== 'image')
    throw new FieldError('modality', 'modality must be "text" or "image"');
  if (!isLeftOut(messages)) return [readMessages(messages, body['input'])];
  const { input } = body;
  if (isLeftOut(input))
    throw new FieldError('input', 'input is missing: a string, an image item, or a list of them');
  if (!Array.isArray(input)) return [readItem('input', input, modality)];
  if (input.length === 0) throw new FieldError('input', 'input must not be an empty list');
  if (input.length > MAX_TEXTS) throw new FieldError('input', `input may have ${MAX_TEXTS} items`);
  return input.map((item, index) => readItem(`input.${index}`, item, modality));
}

/** vLLM's form: a chat of one message with one part, which is one item. */
function readMessages(messages: unknown, input: unknown): EmbeddingItem {
  if (!isLeftOut(input)) throw new FieldError('messages', 'send either input or messages');
  const [message, ...others] = Array.isArray(messages) ? (messages as unknown[]) : [];
  if (!isPlainObject(message) || others.length > 0)
    throw new FieldError('messages', 'messages must be a list of one message');
  const { content } = message;
  if (typeof content === 'string') return readItem('messages.0.content', content);
  const [part, ...rest] = Array.isArray(content) ? (content as unknown[]) : [];
  if (part === undefined || rest.length > 0)
    throw new FieldError(
      'messages.0.content',
      'content must be one text or one image: a vector is made from one item',
    );
  return readItem('messages.0.content.0', part);
}

function readItem(param: string, item: unknown, modality?: unknown): EmbeddingItem {
  if (typeof item === 'string') {
    const isImage = modality === 'image' || /^data:image\//i.test(item);
    return isImage ? readImage(param, item) : readText(param, item);
  }
  if (typeof item === 'number' || Array.isArray(item))
    throw new FieldError(
      param,
      `${param} holds token ids; send texts (LangChain: check_embedding_ctx_length=False)`,
    );
  if (!isPlainObject(item))
    throw new FieldError(param, `${param} must be a string, { "image": … } or { "text": … }`);
  const text = item['text'];
  const image = isLeftOut(item['image']) ? item['image_url'] : item['image'];
  if (isLeftOut(text) === isLeftOut(image))
    throw new FieldError(param, `${param} must have either "image" or "text"`);
  if (isLeftOut(image)) return readText(param, text);
  return readImage(param, isPlainObject(image) ? image['url'] : image);
}

function readText(param: string, text: unknown): EmbeddingItem {
  if (typeof text !== 'string' || text === '')
    throw new FieldError(param, `${param} must hold a text that is not empty`);
  if (text.length > MAX_TEXT_LENGTH)
    throw new FieldError(param, `${param} has ${text.length} characters; ${MAX_TEXT_LENGTH} are allowed`);
  return { type: 'text', text, param };
}

/** An image as URL, as data URI, or as base64. */
function readImage(param: string, image: unknown): EmbeddingItem {
  if (typeof image !== 'string' || image === '')
    throw new FieldError(param, `${param} must hold an image: a data URI, base64, or a URL`);
  if (/^https?:\/\//i.test(image)) return { type: 'url', url: image, param };
  const bytes = readBase64(image);
  if (bytes) return { type: 'image', bytes, param };
  throw new FieldError(param, `${param} must hold an image: a data URI in base64, base64, or a URL`);
}
