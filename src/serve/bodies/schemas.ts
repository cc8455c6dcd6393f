/** The bodies of the routes as JSON Schema, which validates requests and documents the routes. */
import { DATATYPES } from './datatypes.js';
import { isOpenAiPath } from '../http/openai-error.js';
import type { Answer, Schema } from '../http/route.js';
import { OPENAI_ERROR } from './openai-schemas.js';

const TEXT: Schema = { type: 'string' };
const NAME: Schema = { type: 'string', minLength: 1, maxLength: 1024 };
const SHAPE: Schema = { type: 'array', items: { type: 'integer', minimum: 0 } };
const DATATYPE: Schema = { type: 'string', enum: Object.values(DATATYPES) };

function object(
  properties: Record<string, Schema>,
  required = Object.keys(properties),
  more = false,
): Schema {
  return { type: 'object', properties, required, additionalProperties: more };
}

function list(items: Schema): Schema {
  return { type: 'array', items };
}

const SIZE: Schema = { type: 'integer', minimum: 0 };
const BOOLEAN: Schema = { type: 'boolean' };

const IMAGE: Schema = { type: 'string', minLength: 1, description: 'an encoded image in base64' };
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

/** An error of routes that are neither below `/v1` nor `/v2`. */
const ERROR: Schema = object({ error: PROBLEM });

/** An error of the Open Inference Protocol. */
const V2_ERROR: Schema = object({ error: TEXT });

/** The answer of a route to a request that it refuses. */
export function errorAnswer(path: string): Answer {
  const schema = path.startsWith('/v2') ? V2_ERROR : isOpenAiPath(path) ? OPENAI_ERROR : ERROR;
  return { description: 'refused, or failed', contents: { 'application/json': schema } };
}

export function jsonAnswer(schema: Schema, description: string = 'done'): Answer {
  return { description, contents: { 'application/json': schema } };
}

/** The JSON part of an inference request. */
export const INFER_REQUEST: Schema = object(
  {
    id: TEXT,
    parameters: { type: 'object', properties: { binary_data_output: BOOLEAN } },
    inputs: {
      type: 'array',
      minItems: 1,
      maxItems: 1024,
      items: object(
        {
          name: NAME,
          shape: SHAPE,
          datatype: DATATYPE,
          parameters: { type: 'object', properties: { binary_data_size: SIZE } },
          data: { type: 'array', description: 'flat in C order, or nested as the shape is' },
        },
        ['name', 'shape', 'datatype'],
        true,
      ),
    },
    outputs: {
      type: 'array',
      maxItems: 1024,
      items: object(
        { name: NAME, parameters: { type: 'object', properties: { binary_data: BOOLEAN } } },
        ['name'],
        true,
      ),
    },
  },
  ['inputs'],
  true,
);

/** The JSON part of an inference reply. */
export const INFER_REPLY: Schema = object(
  {
    model_name: TEXT,
    model_version: TEXT,
    id: TEXT,
    outputs: list(
      object(
        {
          name: TEXT,
          datatype: DATATYPE,
          shape: SHAPE,
          parameters: { type: 'object' },
          data: { type: 'array' },
        },
        ['name', 'datatype', 'shape'],
      ),
    ),
  },
  ['model_name', 'model_version', 'outputs'],
);

const TENSORS: Schema = list(object({ name: TEXT, datatype: TEXT, shape: list({ type: 'integer' }) }));

export const MODEL_METADATA: Schema = object(
  {
    name: TEXT,
    versions: list(TEXT),
    platform: TEXT,
    inputs: TENSORS,
    outputs: TENSORS,
    parameters: { type: 'object' },
  },
  ['name', 'platform', 'inputs', 'outputs'],
);

export const SERVER_METADATA: Schema = object({ name: TEXT, version: TEXT, extensions: list(TEXT) });

export function flag(name: string): Schema {
  return object({ [name]: BOOLEAN });
}

/** The configuration of a model, as Triton's model configuration extension has it. */
export const MODEL_CONFIG: Schema = object(
  {
    name: TEXT,
    platform: TEXT,
    backend: TEXT,
    version_policy: { type: 'object' },
    max_batch_size: SIZE,
    input: list({ type: 'object' }),
    output: list({ type: 'object' }),
    parameters: { type: 'object', additionalProperties: true },
  },
  ['name', 'platform', 'max_batch_size', 'input', 'output'],
);

/** The models of the server, as Triton's model repository extension has them. */
export const REPOSITORY_INDEX: Schema = list(
  object({ name: TEXT, version: TEXT, state: TEXT, reason: TEXT }),
);
