/** The Open Inference Protocol, version 2 (KServe, Triton): health, metadata, and what Triton's clients ask besides. */
import { recordTransform } from '../../datasets/embed/describe-run.js';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CAPABILITIES, describePrecision } from '../../runtime/capabilities/capabilities.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import type { ServiceContext } from './context.js';
import { DATATYPES } from '../bodies/datatypes.js';
import { HttpError } from '../http/http-error.js';
import type { Answer, Route } from '../http/route.js';
import { IMAGE_INPUT } from '../bodies/infer-request.js';
import {
  flag,
  jsonAnswer,
  MODEL_CONFIG,
  MODEL_METADATA,
  REPOSITORY_INDEX,
  SERVER_METADATA,
} from '../bodies/schemas.js';

/** The version of the only model. */
export const VERSION = '1';

/** The paths of the model, with and without its version. */
export const MODEL_PATHS = ['/v2/models/:name', '/v2/models/:name/versions/:version'] as const;

/** Extensions of Triton that the service does not have: clients get a clear answer. */
const UNSUPPORTED: readonly (readonly [method: 'GET' | 'POST', path: string, advice: string])[] = [
  ['GET', '/v2/models/stats', 'model statistics are not supported; see /metrics'],
  ['POST', '/v2/repository/models/:name/load', 'the service has one model, which is always loaded'],
  ['POST', '/v2/repository/models/:name/unload', 'the service has one model, which is always loaded'],
  ['GET', '/v2/systemsharedmemory/status', 'shared memory is not supported; send tensors in the body'],
  ['GET', '/v2/cudasharedmemory/status', 'shared memory is not supported; send tensors in the body'],
  ['GET', '/v2/trace/setting', 'tracing is not supported'],
  ['GET', '/v2/logging', 'log settings are not supported'],
];

export function modelRoutes(context: ServiceContext): Route[] {
  const ready: Readonly<Record<number, Answer>> = {
    200: jsonAnswer(flag('ready')),
    503: { description: 'shutting down' },
  };
  const server: Route[] = [
    {
      method: 'GET',
      path: '/v2',
      summary: 'What the server is',
      answers: { 200: jsonAnswer(SERVER_METADATA) },
      handle: () => ({
        name: 'onnx-tapir',
        version: context.version,
        extensions: ['binary_tensor_data', 'model_configuration', 'model_repository'],
      }),
    },
    {
      method: 'GET',
      path: '/v2/health/live',
      summary: 'Whether the process answers',
      isOpen: true,
      answers: { 200: jsonAnswer(flag('live')) },
      handle: () => ({ live: true }),
    },
    {
      method: 'GET',
      path: '/v2/health/ready',
      summary: 'Whether the service takes work',
      isOpen: true,
      answers: ready,
      handle: (_, reply) => sendReady(context, reply),
    },
    {
      method: 'POST',
      path: '/v2/repository/index',
      summary: 'The models of the server',
      answers: { 200: jsonAnswer(REPOSITORY_INDEX) },
      handle: () => [{ name: context.setup.name, version: VERSION, state: 'READY', reason: '' }],
    },
  ];
  const ofModel =
    (handle: Route['handle']): Route['handle'] =>
    (request, reply) => {
      checkModel(request, context);
      return handle(request, reply);
    };
  const model = MODEL_PATHS.flatMap((path): Route[] => [
    {
      method: 'GET',
      path,
      summary: 'What the model takes and returns',
      answers: { 200: jsonAnswer(MODEL_METADATA) },
      handle: ofModel(() => describeModel(context)),
    },
    {
      method: 'GET',
      path: `${path}/ready`,
      summary: 'Whether the model takes work',
      answers: ready,
      handle: ofModel((_, reply) => sendReady(context, reply)),
    },
    {
      method: 'GET',
      path: `${path}/config`,
      summary: 'The configuration of the model, as Triton describes it',
      answers: { 200: jsonAnswer(MODEL_CONFIG) },
      handle: ofModel(() => configureModel(context)),
    },
    unsupported('GET', `${path}/stats`, 'model statistics are not supported; see /metrics'),
  ]);
  return [...server, ...model, ...UNSUPPORTED.map((one) => unsupported(...one))];
}

function unsupported(method: 'GET' | 'POST', path: string, advice: string): Route {
  return {
    method,
    path,
    summary: 'An extension of Triton that this service does not have',
    answers: { 501: { description: advice } },
    handle: () => {
      throw new HttpError('NOT_IMPLEMENTED', advice);
    },
  };
}

function sendReady({ isReady }: ServiceContext, reply: FastifyReply): { readonly ready: boolean } {
  const ready = isReady();
  if (!ready) void reply.code(503);
  return { ready };
}

/** Throws `NOT_FOUND` if the path names another model or version. */
export function checkModel(request: FastifyRequest, { setup }: ServiceContext): void {
  const { name, version = VERSION } = request.params as { readonly name: string; readonly version?: string };
  if (name !== setup.name)
    throw new HttpError('NOT_FOUND', `there is no model "${name}"; this service has "${setup.name}"`);
  if (version !== VERSION)
    throw new HttpError('NOT_FOUND', `there is no version "${version}"; the model has "${VERSION}"`);
}

type DescribedTensor = ReturnType<typeof describe>;

/** A tensor in the protocol's words; -1 for a size that is open. */
function describe({ name, dtype, dims }: TensorInfo) {
  return {
    name,
    datatype: DATATYPES[(dtype ?? 'float32') as keyof typeof DATATYPES],
    shape: (dims ?? []).map((size) => (typeof size === 'number' ? size : -1)),
  };
}

function describeOutputs({ extractor, sample }: ServiceContext): DescribedTensor[] {
  // A run has shown more than the file may say.
  return extractor.outputs.map((output) => {
    const { dtype, dims } = sample[output.name]!;
    return describe(output.dims === null ? { name: output.name, dtype, dims: [null, ...dims] } : output);
  });
}

function describeModel(context: ServiceContext): Record<string, unknown> {
  return {
    name: context.setup.name,
    versions: [VERSION],
    platform: CAPABILITIES[context.extractor.engine].platform,
    inputs: context.extractor.inputs.map(describe),
    outputs: describeOutputs(context),
    parameters: {
      image_input: IMAGE_INPUT,
      precision: describePrecision(context.extractor),
      transform: recordTransform(context.setup.embed.transform),
    },
  };
}

function configureModel(context: ServiceContext): Record<string, unknown> {
  const { extractor, setup } = context;
  // Triton leaves the batch axis out of the dims, and calls BYTES a string.
  const configure = ({ name, datatype, shape }: DescribedTensor): Record<string, unknown> => ({
    name,
    data_type: datatype === 'BYTES' ? 'TYPE_STRING' : `TYPE_${datatype}`,
    dims: shape.slice(1),
  });
  return {
    name: setup.name,
    platform: CAPABILITIES[extractor.engine].platform,
    backend: extractor.engine,
    version_policy: { latest: { num_versions: 1 } },
    max_batch_size: setup.maxBatch,
    input: extractor.inputs.map(describe).map(configure),
    output: describeOutputs(context).map(configure),
    parameters: {
      precision: { string_value: describePrecision(extractor) },
      transform: { string_value: JSON.stringify(recordTransform(setup.embed.transform)) },
    },
  };
}
