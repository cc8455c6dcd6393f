/** The bodies of the routes below `/v1` as JSON Schema, for the document. */
import type { Schema } from '../http/route.js';

const TEXT: Schema = { type: 'string' };
const COUNT: Schema = { type: 'integer', minimum: 0 };

function object(properties: Record<string, Schema>, required = Object.keys(properties)): Schema {
  return { type: 'object', properties, required };
}

const IMAGE: Schema = {
  type: 'string',
  minLength: 1,
  description: 'a data URI, base64, or a URL if the service fetches them (tapir serve --allow-urls)',
};

const ITEM: Schema = {
  anyOf: [
    { type: 'string', minLength: 1, description: 'a text, or an image as data URI' },
    object({ image: IMAGE }),
    object({ text: { type: 'string', minLength: 1 } }),
    object({ image_url: { anyOf: [IMAGE, object({ url: IMAGE })] } }),
  ],
};

/** Body of `POST /v1/embeddings`. */
export const EMBEDDINGS_REQUEST: Schema = object(
  {
    model: { type: 'string', description: 'the model’s name, or NAME/OUTPUT' },
    input: { anyOf: [ITEM, { type: 'array', minItems: 1, items: ITEM }] },
    encoding_format: {
      type: 'string',
      enum: ['float', 'base64'],
      description: 'base64 holds float32, little-endian',
    },
    dimensions: {
      type: 'integer',
      minimum: 1,
      description: 'vectors are cut to this size, then get length 1',
    },
    modality: {
      type: 'string',
      enum: ['text', 'image'],
      description: 'with "image", strings are images, as infinity’s clients send them',
    },
    messages: {
      type: 'array',
      items: { type: 'object' },
      description: 'instead of input: one message with one text or image, as vLLM’s clients send it',
    },
  },
  [],
);

/** The answer of `POST /v1/embeddings`. */
export const EMBEDDINGS: Schema = object({
  object: { type: 'string', enum: ['list'] },
  data: {
    type: 'array',
    items: object({
      object: { type: 'string', enum: ['embedding'] },
      index: COUNT,
      embedding: { anyOf: [{ type: 'array', items: { type: ['number', 'null'] } }, TEXT] },
    }),
  },
  model: TEXT,
  usage: object({ prompt_tokens: COUNT, total_tokens: COUNT }),
});

export const OPENAI_MODEL: Schema = object({ id: TEXT, object: TEXT, created: COUNT, owned_by: TEXT });

export const OPENAI_MODELS: Schema = object({ object: TEXT, data: { type: 'array', items: OPENAI_MODEL } });

export const OPENAI_ERROR: Schema = object({
  error: object({ message: TEXT, type: TEXT, param: { type: ['string', 'null'] }, code: TEXT }),
});
