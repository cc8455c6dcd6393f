/** The bodies of the routes as JSON Schema, which validates requests and documents the routes. */
import { isOpenAiPath } from '../http/openai-error.js';
import type { Answer, Schema } from '../http/route.js';
import { OPENAI_ERROR } from './openai-schemas.js';

const TEXT: Schema = { type: 'string' };
const SHAPE: Schema = { type: 'array', items: { type: 'integer', minimum: 0 } };

function object(properties: Record<string, Schema>, required = Object.keys(properties)): Schema {
  return { type: 'object', properties, required, additionalProperties: false };
}

function list(items: Schema): Schema {
  return { type: 'array', items };
}

const SIZE: Schema = { type: 'integer', minimum: 0 };

const IMAGE: Schema = {
  type: 'string',
  minLength: 1,
  description: 'an encoded image in base64, bare or as a data URI',
};
const URLS: Schema = {
  type: 'array',
  minItems: 1,
  items: { type: 'string', minLength: 1, maxLength: 8192 },
  description: 'fetched if the service allows it (tapir serve --allow-urls)',
};

/** Body of `POST /embed` as JSON: exactly one of the fields. */
export const EMBED_REQUEST: Schema = {
  ...object({ image: IMAGE, images: { type: 'array', minItems: 1, items: IMAGE }, urls: URLS }, []),
  minProperties: 1,
  maxProperties: 1,
};

/** What routes take that embed images: a picture, a form, or {@link EMBED_REQUEST}. */
export const SENT_IMAGES: Readonly<Record<string, Schema | null>> = {
  'image/*': null,
  'application/octet-stream': null,
  'multipart/form-data': null,
  'application/json': EMBED_REQUEST,
};

const PROBLEM: Schema = object({ code: TEXT, message: TEXT });

/** A result per image: what was found, or an error. */
function results(found: Record<string, Schema>): Schema {
  const name: Schema = { ...TEXT, description: 'file name or URL, where there is one' };
  return list(object({ index: SIZE, name, ...found, error: PROBLEM }, ['index']));
}

/** The answer of `POST /embed`. */
export const EMBEDDED: Schema = object({
  model: TEXT,
  outputs: list(object({ name: TEXT, dtype: TEXT, dims: SHAPE })),
  results: results({
    features: {
      type: 'object',
      description: 'by output: the elements, flat in C order; null for NaN and infinities',
      additionalProperties: { type: 'array' },
    },
  }),
});

/** The answer of `POST /classify`. */
export const CLASSIFIED: Schema = object({
  model: TEXT,
  results: results({
    classes: list(
      object({
        label: TEXT,
        index: { ...SIZE, description: 'position among the labels' },
        score: { type: ['number', 'null'], description: 'as the model gives it' },
        probability: { type: ['number', 'null'], description: 'null if scores only order the classes' },
      }),
    ),
  }),
});

/** An error of routes that are not below `/v1`. */
const ERROR: Schema = object({ error: PROBLEM });

/** The answer of a route to a request that it refuses. */
export function errorAnswer(path: string): Answer {
  const schema = isOpenAiPath(path) ? OPENAI_ERROR : ERROR;
  return { description: 'refused, or failed', contents: { 'application/json': schema } };
}

export function jsonAnswer(schema: Schema, description: string = 'done'): Answer {
  return { description, contents: { 'application/json': schema } };
}

/** An answer with one field that is true or false. */
export function flag(name: string): Schema {
  return object({ [name]: { type: 'boolean' } });
}
