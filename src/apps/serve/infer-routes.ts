/** The Open Inference Protocol, version 2 (KServe, Triton): health, metadata, inference. */
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { ServiceContext } from './context.js';
import { DATATYPES } from './datatypes.js';
import { HttpError } from './http-error.js';
import { countImage } from './metrics.js';
import { encodeReply, stackRows } from './infer-reply.js';
import {
  IMAGE_INPUT,
  readInputs,
  readWanted,
  splitBody,
  type InferFeeds,
  type InferJson,
} from './infer-request.js';
import type { Route } from './route.js';
import { flag, INFER_REPLY, INFER_REQUEST, MODEL_METADATA, SERVER_METADATA, type Schema } from './schemas.js';

const VERSION = '1';
const HEADER_LENGTH = 'inference-header-content-length';

/** Bytes behind the JSON of requests whose JSON has been parsed. */
const binaries = new WeakMap<IncomingMessage, Uint8Array>();

/** Has bodies read as inference requests, whatever their media type: Triton's clients send none. */
export function parseInferBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      const given = request.headers[HEADER_LENGTH];
      const { json, binary } = splitBody(body as Buffer, given === undefined ? undefined : String(given));
      binaries.set(request.raw, binary);
      done(null, json);
    } catch (error) {
      done(error as Error);
    }
  });
}

/** The routes; those that take a body belong under {@link parseInferBodies}. */
export function inferRoutes(context: ServiceContext): Route[] {
  const rows = new RowCount(context.setup.maxQueue);
  const server: Route[] = [
    {
      method: 'GET',
      path: '/v2',
      summary: 'What the server is',
      answers: json(SERVER_METADATA),
      handle: () => ({ name: 'onnx-tapir', version: context.version, extensions: ['binary_tensor_data'] }),
    },
    {
      method: 'GET',
      path: '/v2/health/live',
      summary: 'Whether the process answers',
      isOpen: true,
      answers: json(flag('live')),
      handle: () => ({ live: true }),
    },
    {
      method: 'GET',
      path: '/v2/health/ready',
      summary: 'Whether work is taken',
      isOpen: true,
      answers: { ...json(flag('ready')), 503: { description: 'shutting down' } },
      handle: (_, reply) => sendReady(context, reply),
    },
  ];
  const models = ['/v2/models/:name', '/v2/models/:name/versions/:version'].flatMap((path): Route[] => [
    {
      method: 'GET',
      path,
      summary: 'What the model takes and returns',
      answers: json(MODEL_METADATA),
      handle: (request) => {
        checkModel(request, context);
        return describeModel(context);
      },
    },
    {
      method: 'GET',
      path: `${path}/ready`,
      summary: 'Whether the model takes work',
      answers: { ...json(flag('ready')), 503: { description: 'shutting down' } },
      handle: (request, reply) => {
        checkModel(request, context);
        return sendReady(context, reply);
      },
    },
    {
      method: 'POST',
      path: `${path}/infer`,
      summary: `Runs tensors, or encoded images given as input "${IMAGE_INPUT}" of datatype BYTES`,
      headers: { 'Inference-Header-Content-Length': 'bytes of the JSON, where tensors lie behind it' },
      body: { 'application/json': INFER_REQUEST, 'application/octet-stream': null },
      parsed: INFER_REQUEST,
      answers: {
        200: {
          description: 'the outputs',
          contents: { 'application/json': INFER_REPLY, 'application/octet-stream': null },
        },
      },
      handle: (request, reply) => {
        checkModel(request, context);
        return infer(request, reply, context, rows);
      },
    },
  ]);
  return [...server, ...models];
}

function json(schema: Schema): Route['answers'] {
  return { 200: { description: 'done', contents: { 'application/json': schema } } };
}

function sendReady({ isReady }: ServiceContext, reply: FastifyReply): { readonly ready: boolean } {
  const ready = isReady();
  if (!ready) void reply.code(503);
  return { ready };
}

function checkModel(request: FastifyRequest, { setup }: ServiceContext): void {
  const { name, version = VERSION } = request.params as { readonly name: string; readonly version?: string };
  if (name !== setup.name)
    throw new HttpError('NOT_FOUND', `there is no model "${name}"; this service has "${setup.name}"`);
  if (version !== VERSION)
    throw new HttpError('NOT_FOUND', `there is no version "${version}"; the model has "${VERSION}"`);
}

function describeModel({ extractor, setup, sample }: ServiceContext): Record<string, unknown> {
  const describe = ({ name, dtype, dims }: TensorInfo): Record<string, unknown> => ({
    name,
    datatype: DATATYPES[(dtype ?? 'float32') as keyof typeof DATATYPES],
    shape: (dims ?? []).map((size) => (typeof size === 'number' ? size : -1)),
  });
  // What a run has shown is more than the file may say.
  const outputs = extractor.outputs.map((output) => {
    const { dtype, dims } = sample[output.name]!;
    return describe(output.dims === null ? { name: output.name, dtype, dims: [null, ...dims] } : output);
  });
  return {
    name: setup.name,
    versions: [VERSION],
    platform: 'onnxruntime_onnx',
    inputs: extractor.inputs.map(describe),
    outputs,
    parameters: { image_input: IMAGE_INPUT },
  };
}

/** Rows of tensors that are at work or waiting: as many as images may be. */
class RowCount {
  readonly #most: number;
  #rows = 0;

  constructor(most: number) {
    this.#most = most;
  }

  async hold<Result>(rows: number, work: () => Promise<Result>): Promise<Result> {
    // A request that is larger than the queue goes alone.
    if (this.#rows > 0 && this.#rows + rows > this.#most)
      throw new HttpError('QUEUE_FULL', `${this.#rows} rows are waiting; try again later`);
    this.#rows += rows;
    try {
      return await work();
    } finally {
      this.#rows -= rows;
    }
  }
}

async function infer(
  request: FastifyRequest,
  reply: FastifyReply,
  context: ServiceContext,
  rows: RowCount,
): Promise<Buffer> {
  // As its schema says.
  const body = request.body as InferJson;
  const binary = binaries.get(request.raw) ?? new Uint8Array();
  const { extractor, setup } = context;
  const wanted = readWanted(body, extractor);
  const feeds = readInputs(body, binary, extractor.inputs);
  const { signal } = context.stateOf(request);
  const tensors = feeds.images
    ? await embed(context, feeds.images, signal)
    : await rows.hold(rowsOf(feeds), () => extractor.run(feeds.tensors, { signal, transfer: true }));
  const { body: bytes, headerLength } = encodeReply(
    { model: setup.name, version: VERSION, id: body.id },
    wanted,
    tensors,
  );
  if (headerLength === null) void reply.type('application/json; charset=utf-8');
  else void reply.type('application/octet-stream').header(HEADER_LENGTH, headerLength);
  return bytes;
}

function rowsOf({ tensors = {} }: InferFeeds): number {
  return Math.max(1, ...Object.values(tensors).map(({ dims }) => dims[0] ?? 1));
}

/** All images, or the first error: the protocol has no place for one among several. */
async function embed(
  { batcher, metrics, setup }: ServiceContext,
  images: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<Record<string, Tensor>> {
  if (images.length > setup.maxImages)
    throw new HttpError('TOO_MANY_IMAGES', `a request may have ${setup.maxImages} images; send several`);
  const rows = batcher.add(images, signal);
  for (const one of await Promise.allSettled(rows)) countImage(metrics, one);
  return stackRows(await Promise.all(rows));
}
