/** What the routes take, as JSON Schema: requests are validated with it, and the OpenAPI document is made of it. */
import { DATATYPES } from './datatypes.js';

/** A JSON Schema. */
export type Schema = Readonly<Record<string, unknown>>;

const TEXT: Schema = { type: 'string' };
const NAME: Schema = { type: 'string', minLength: 1, maxLength: 1024 };
const SHAPE: Schema = { type: 'array', items: { type: 'integer', minimum: 0 } };
const DATATYPE: Schema = { type: 'string', enum: Object.values(DATATYPES) };

function object(properties: Record<string, Schema>, required: readonly string[], more = false): Schema {
  return { type: 'object', properties, required, additionalProperties: more };
}

function list(items: Schema): Schema {
  return { type: 'array', items };
}

/** Settings of a tensor or a request; those that are not known are passed over, as the protocol asks. */
const SIZE: Schema = { type: 'integer', minimum: 0 };
const BOOLEAN: Schema = { type: 'boolean' };

/** Body of `POST /embed` as JSON. */
export const URLS: Schema = object(
  { urls: { type: 'array', minItems: 1, items: { type: 'string', minLength: 1, maxLength: 8192 } } },
  ['urls'],
);

/** What `POST /embed` answers. */
export const EMBEDDED: Schema = object(
  {
    model: TEXT,
    outputs: list(object({ name: TEXT, dtype: TEXT, dims: SHAPE }, ['name', 'dtype', 'dims'])),
    results: list(
      object(
        {
          index: SIZE,
          name: { ...TEXT, description: 'file name or URL, where there is one' },
          features: {
            type: 'object',
            description: 'by output: the elements, flat in C order, null for what is no finite number',
            additionalProperties: { type: 'array' },
          },
          error: object({ code: TEXT, message: TEXT }, ['code', 'message']),
        },
        ['index'],
      ),
    ),
  },
  ['model', 'outputs', 'results'],
);

/** An error of `/embed` and of all that is not below `/v2`. */
export const ERROR: Schema = object({ error: object({ code: TEXT, message: TEXT }, ['code', 'message']) }, [
  'error',
]);

/** An error of the Open Inference Protocol. */
export const V2_ERROR: Schema = object({ error: TEXT }, ['error']);

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

const TENSORS: Schema = list(
  object({ name: TEXT, datatype: TEXT, shape: { type: 'array', items: { type: 'integer' } } }, [
    'name',
    'datatype',
    'shape',
  ]),
);

/** What a model is. */
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

/** What the server is. */
export const SERVER_METADATA: Schema = object({ name: TEXT, version: TEXT, extensions: list(TEXT) }, [
  'name',
  'version',
  'extensions',
]);

/** An object of one boolean. */
export function flag(name: string): Schema {
  return object({ [name]: BOOLEAN }, [name]);
}
