/** `POST /embed`: images in, features out. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { encodeNpy } from '../../../datasets/formats/npy.js';
import { elementsToJson } from '../../../onnx/tensor/json-elements.js';
import type { ServiceContext } from './context.js';
import { readSentImages } from '../bodies/embed-body.js';
import { errorBody, HttpError, isAboutImage } from '../http/http-error.js';
import { readBody } from '../http/read-body.js';
import type { Route } from '../http/route.js';
import { scanJson } from '../http/scan-json.js';
import type { ImageFeatures } from '../batches/image-batcher.js';
import { EMBEDDED, SENT_IMAGES } from '../bodies/schemas.js';
import type { ServiceSetup } from '../batches/service-options.js';

/** An image of a request: its features, or its error. */
export interface ImageResult {
  readonly name: string | null;
  readonly features: ImageFeatures | null;
  readonly error: Error | null;
}

/** Adds the parsers of images and JSON. Forms have their own parser. */
export function parseEmbedBodies(app: FastifyInstance, setup: ServiceSetup): void {
  parseJsonBodies(app, setup);
  const read = (request: FastifyRequest, payload: FastifyRequest['raw']) =>
    readBody(payload, request.headers, setup.maxBodyBytes);
  app.addContentTypeParser(/^image\//, read);
  app.addContentTypeParser('application/octet-stream', read);
}

/** Makes JSON the only body that is parsed. */
export function parseJsonBodies(app: FastifyInstance, { maxJsonBytes }: ServiceSetup): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: FastifyRequest['raw']) => {
      return scanJson(await readBody(payload, request.headers, maxJsonBytes));
    },
  );
}

/** The refusals of routes that embed the images of a request. */
export const REFUSALS: Route['answers'] = {
  413: { description: 'too many bytes, too many images, or a single image with too many pixels' },
  422: { description: 'the only image cannot be read' },
  503: { description: 'the queue is full; Retry-After says when to try again' },
};

/** Makes the route, for a server with {@link parseEmbedBodies}. */
export function embedRoute(context: ServiceContext): Route {
  const { extractor } = context;
  const npy = extractor.outputs.length === 1 && extractor.outputs[0]!.dtype !== 'string';
  return {
    method: 'POST',
    path: '/embed',
    summary: 'Embeds one image or several',
    isQueued: true,
    body: SENT_IMAGES,
    answers: {
      200: {
        description:
          'features; if there are several images, some may have an error instead. The .npy bytes, if accepted, are those of a single image and output',
        contents: { 'application/json': EMBEDDED, ...(npy ? { 'application/x-npy': null } : {}) },
      },
      ...REFUSALS,
    },
    async handle(request, reply) {
      const forms = acceptedForms(request.headers.accept);
      if (forms.length === 0 || (forms[0] === 'npy' && forms.length === 1 && !npy)) throw notAcceptable(npy);
      const results = await embedSent(context, request);
      const canBeNpy = npy && results.length === 1;
      const form = forms.find((one) => one === 'json' || canBeNpy);
      if (form === undefined) throw notAcceptable(npy);
      return form === 'npy' ? sendNpy(reply, results[0]!.features!) : sendJson(reply, context, results);
    },
  };
}

function notAcceptable(hasNpy: boolean): HttpError {
  const npy = hasNpy ? ', or application/x-npy for a single image' : '';
  return new HttpError('NOT_ACCEPTABLE', `features are sent as application/json${npy}`);
}

/** Embeds the images of a request. An image that fails does not affect the others; the only one fails the request. */
export async function embedSent(context: ServiceContext, request: FastifyRequest): Promise<ImageResult[]> {
  const state = context.stateOf(request);
  const sent = await readSentImages(request, context.setup, state);
  const images = sent.flatMap(({ bytes }) => bytes ?? []);
  const rows = context.batcher.add(images, state.signal);
  let next = 0;
  const features = sent.map(({ bytes, error }) => (bytes ? rows[next++]! : Promise.reject(error!)));
  const settled = await Promise.allSettled(features);
  for (const one of settled) context.metrics.image(one);
  const results = settled.map((one, i): ImageResult => {
    const { name } = sent[i]!;
    if (one.status === 'fulfilled') return { name, features: one.value, error: null };
    if (!isAboutImage(one.reason)) throw one.reason;
    return { name, features: null, error: one.reason };
  });
  const [only, ...others] = results;
  if (others.length === 0 && only!.error) throw only!.error;
  return results;
}

function sendJson(
  reply: FastifyReply,
  { setup, sample }: ServiceContext,
  results: readonly ImageResult[],
): string {
  const outputs = Object.entries(sample).map(([name, { dtype, dims }]) => ({
    name,
    dtype,
    dims,
  }));
  const parts = results.map(({ name, features, error }, index) => {
    const head = `"index":${index}${name === null ? '' : `,"name":${JSON.stringify(name)}`}`;
    if (!features) return `{${head},"error":${JSON.stringify(errorBody(error).error)}}`;
    const values = Object.entries(features).map(
      ([key, tensor]) => `${JSON.stringify(key)}:[${elementsToJson(tensor.dtype, tensor.data)}]`,
    );
    return `{${head},"features":{${values.join(',')}}}`;
  });
  void reply.type('application/json; charset=utf-8');
  return `{"model":${JSON.stringify(setup.name)},"outputs":${JSON.stringify(outputs)},"results":[${parts.join(',')}]}`;
}

function sendNpy(reply: FastifyReply, features: ImageFeatures): Buffer {
  void reply.type('application/x-npy');
  return encodeNpy(Object.values(features)[0]!);
}

/** JSON, or the bytes of a `.npy` file. */
type ReplyForm = 'json' | 'npy';

const TYPES: Readonly<Record<ReplyForm, readonly string[]>> = {
  json: ['application/json'],
  npy: ['application/x-npy', 'application/octet-stream'],
};

/** The acceptable forms (RFC 9110, section 12.5.1), the preferred one first. Without a header, JSON is preferred. */
export function acceptedForms(accept: string | undefined): ReplyForm[] {
  if (accept === undefined || accept.trim() === '') return ['json', 'npy'];
  const qualities = new Map<string, number>();
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((text) => text.trim().toLowerCase());
    const weight = parameters.find((text) => text.startsWith('q='));
    const quality = weight === undefined ? 1 : Number(weight.slice(2));
    qualities.set(type, Math.max(qualities.get(type) ?? 0, Number.isFinite(quality) ? quality : 0));
  }
  const rated = (['json', 'npy'] as const).map((form) => {
    const named = TYPES[form].flatMap((type) => qualities.get(type) ?? []);
    const isNamed = named.length > 0;
    const any = qualities.get('application/*') ?? qualities.get('*/*') ?? 0;
    return { form, isNamed, quality: isNamed ? Math.max(...named) : any };
  });
  return rated
    .filter(({ quality }) => quality > 0)
    .toSorted((a, b) => b.quality - a.quality || Number(b.isNamed) - Number(a.isNamed))
    .map(({ form }) => form);
}
