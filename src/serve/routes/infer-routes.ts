/** Inference by the Open Inference Protocol: tensors or images in, tensors out. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { createData, elementCount, makeTensor, type Tensor } from '../../tensor/tensor.js';
import type { ServiceContext } from './context.js';
import { HttpError } from '../http/http-error.js';
import { readBody } from '../http/read-body.js';
import type { Route } from '../http/route.js';
import { scanJson, type ScannedJson } from '../http/scan-json.js';
import {
  IMAGE_INPUT,
  readInputs,
  readWanted,
  type InferBody,
  type InferFeeds,
  type InferJson,
  type WantedOutput,
} from '../bodies/infer-request.js';
import { checkModel, MODEL_PATHS, VERSION } from './model-routes.js';
import { INFER_REPLY, INFER_REQUEST } from '../bodies/schemas.js';
import type { ServiceSetup } from '../batches/service-options.js';
import { elementsToJson } from '../../tensor/json-elements.js';
import { DATATYPES, encodeBinaryData } from '../bodies/datatypes.js';
import type { ImageFeatures } from '../batches/image-batcher.js';

const HEADER_LENGTH = 'inference-header-content-length';

/** The parts of bodies that are not JSON, by the parsed JSON. */
const parts = new WeakMap<object, Omit<InferBody, 'json'>>();

/** Parses every body as an inference request, whatever its media type: Triton's clients send no media type. */
export function parseInferBodies(app: FastifyInstance, setup: ServiceSetup): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
    const { maxBodyBytes, maxJsonBytes } = setup;
    const advice = 'send tensors as bytes after the JSON (binary_data_size), or raise maxJsonBytes';
    const given = request.headers[HEADER_LENGTH];
    const body =
      given === undefined
        ? await readBody(payload, request.headers, maxJsonBytes, advice)
        : await readBody(payload, request.headers, maxBodyBytes);
    const end = given === undefined ? body.length : readLength(String(given), body.length);
    if (end > maxJsonBytes)
      throw new HttpError('BODY_TOO_LARGE', `the JSON has more than ${maxJsonBytes} bytes; ${advice}`);
    const { json, lists } = scan(body.subarray(0, end), given === undefined);
    if (json !== null && typeof json === 'object') parts.set(json, { lists, binary: body.subarray(end) });
    return json;
  });
}

function scan(body: Buffer, isWhole: boolean): ScannedJson {
  try {
    return scanJson(body, 'data');
  } catch (error) {
    // Other refusals have no cause: the text may well be JSON.
    if (!isWhole || !(error instanceof HttpError) || error.cause === undefined) throw error;
    const advice = 'bytes after the JSON need the header Inference-Header-Content-Length';
    throw new HttpError(error.code, `${error.message}; ${advice}`, { cause: error });
  }
}

function readLength(text: string, most: number): number {
  if (/^\d{1,10}$/.test(text) && Number(text) <= most) return Number(text);
  const expected = `a number of bytes up to ${most}`;
  throw new HttpError('REQUEST_INVALID', `Inference-Header-Content-Length must be ${expected}`);
}

/** Makes the routes, for a server with {@link parseInferBodies}. */
export function inferRoutes(context: ServiceContext): Route[] {
  const rows = new RowCount(context.setup.maxQueue);
  return MODEL_PATHS.map((path) => ({
    method: 'POST',
    path: `${path}/infer`,
    summary: `Runs tensors, or encoded images given as input "${IMAGE_INPUT}" of datatype BYTES`,
    takesCompressed: true,
    headers: { 'Inference-Header-Content-Length': 'bytes of the JSON, if tensors follow it' },
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
  }));
}

/** Rows of tensors that run or wait, limited to the number of images that may wait. */
class RowCount {
  readonly #most: number;
  #rows = 0;

  constructor(most: number) {
    this.#most = most;
  }

  async hold<Result>(rows: number, work: () => Promise<Result>): Promise<Result> {
    // A request that is larger than the queue runs alone.
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
  // The schema has validated it.
  const json = request.body as InferJson;
  const { extractor, setup } = context;
  const wanted = readWanted(json, extractor);
  const feeds = await readInputs({ json, ...parts.get(json)! }, extractor.inputs);
  const { signal } = context.stateOf(request);
  const tensors = feeds.images
    ? await embed(context, feeds.images, signal)
    : await rows.hold(rowsOf(feeds), () => extractor.run(feeds.tensors, { signal, transfer: true }));
  const { body, headerLength } = encodeReply(
    { model: setup.name, version: VERSION, id: json.id },
    wanted,
    tensors,
  );
  if (headerLength === null) void reply.type('application/json; charset=utf-8');
  else void reply.type('application/octet-stream').header(HEADER_LENGTH, headerLength);
  return body;
}

function rowsOf({ tensors = {} }: InferFeeds): number {
  return Math.max(1, ...Object.values(tensors).map(({ dims }) => dims[0] ?? 1));
}

/** Embeds all images, or fails with the first error: the protocol has no place for the error of one image. */
async function embed(
  { batcher, metrics, setup }: ServiceContext,
  images: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<Record<string, Tensor>> {
  if (images.length > setup.maxImages)
    throw new HttpError('TOO_MANY_IMAGES', `a request may have ${setup.maxImages} images; send several`);
  const rows = batcher.add(images, signal);
  for (const one of await Promise.allSettled(rows)) metrics.image(one);
  return stackRows(await Promise.all(rows));
}

interface EncodedReply {
  readonly body: Buffer;
  /** Bytes of the JSON; null if nothing follows it. */
  readonly headerLength: number | null;
}

function encodeReply(
  facts: { readonly model: string; readonly version: string; readonly id: string | undefined },
  wanted: readonly WantedOutput[],
  tensors: Readonly<Record<string, Tensor>>,
): EncodedReply {
  const binary: Uint8Array[] = [];
  const outputs = wanted.map(({ name, isBinary }) => {
    const tensor = tensors[name]!;
    const head = `"name":${JSON.stringify(name)},"datatype":"${DATATYPES[tensor.dtype]}","shape":[${tensor.dims.join(',')}]`;
    if (!isBinary) return `{${head},"data":[${elementsToJson(tensor.dtype, tensor.data)}]}`;
    const bytes = encodeBinaryData(tensor);
    binary.push(bytes);
    return `{${head},"parameters":{"binary_data_size":${bytes.byteLength}}}`;
  });
  const id = facts.id === undefined ? '' : `"id":${JSON.stringify(facts.id)},`;
  const named = `"model_name":${JSON.stringify(facts.model)},"model_version":"${facts.version}"`;
  const json = Buffer.from(`{${named},${id}"outputs":[${outputs.join(',')}]}`);
  return { body: Buffer.concat([json, ...binary]), headerLength: binary.length > 0 ? json.length : null };
}

/** Stacks the features of images into one tensor per output, with the images along the first axis. */
function stackRows(rows: readonly ImageFeatures[]): Record<string, Tensor> {
  const [first] = rows;
  if (!first) return {};
  return Object.fromEntries(
    Object.entries(first).map(([key, { dtype, dims }]) => {
      const size = elementCount(dims);
      const data = createData(dtype, rows.length * size);
      rows.forEach((row, i) => {
        const from = row[key]!.data;
        if (Array.isArray(data)) data.splice(i * size, size, ...(from as string[]));
        // Equal dtypes have the same kind of array.
        else (data as Uint8Array).set(from as Uint8Array, i * size);
      });
      return [key, makeTensor(dtype, [rows.length, ...dims], data)];
    }),
  );
}
