/** OpenAI's API: `/v1/embeddings` and `/v1/models`. */
import type { FastifyRequest } from 'fastify';
import { elementsToJson } from '../../../onnx/tensor/json-elements.js';
import type { ServiceContext } from './context.js';
import { FieldError } from '../http/openai-error.js';
import type { Route } from '../http/route.js';
import { readEmbeddingRequest, type EmbeddingRequest } from '../bodies/openai-input.js';
import { EMBEDDINGS, EMBEDDINGS_REQUEST, OPENAI_MODEL, OPENAI_MODELS } from '../bodies/openai-schemas.js';
import { chooseOutput, embedItems, type Embedded } from './openai-vectors.js';
import { jsonAnswer } from '../bodies/schemas.js';
import { listVectorOutputs } from '../batches/vector-outputs.js';

/** Makes the routes, for a server with parsers of JSON alone. */
export function openAiRoutes(context: ServiceContext): Route[] {
  const created = Math.floor(Date.now() / 1000);
  const models = listModels(context).map((id) => ({
    id,
    object: 'model',
    created,
    owned_by: 'onnx-tapir',
  }));
  return [
    embeddingsRoute(context),
    {
      method: 'GET',
      path: '/v1/models',
      summary: 'The models that /v1/embeddings takes, as in OpenAI’s API',
      answers: { 200: jsonAnswer(OPENAI_MODELS) },
      handle: () => ({ object: 'list', data: models }),
    },
    // The name of an output follows a slash, which some clients escape and others do not.
    ...['/v1/models/:model', '/v1/models/:model/:output'].map((path): Route => ({
      method: 'GET',
      path,
      summary: 'A model, as in OpenAI’s API',
      answers: { 200: jsonAnswer(OPENAI_MODEL) },
      handle: ({ params }) => {
        const id = Object.values(params as Readonly<Record<string, string>>).join('/');
        const found = models.find((model) => model.id === id);
        if (found) return found;
        throw new FieldError('model', `the model ${JSON.stringify(id)} does not exist`, 'NOT_FOUND');
      },
    })),
  ];
}

/** The name, and the name with each output if there are several. */
function listModels({ setup: { name }, sample }: ServiceContext): string[] {
  const outputs = listVectorOutputs(sample);
  const one = outputs.length === 1 ? [name] : [];
  const each = Object.keys(sample).length > 1 ? outputs.map(({ key }) => `${name}/${key}`) : [];
  return [...one, ...each];
}

function embeddingsRoute(context: ServiceContext): Route {
  return {
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Vectors of length 1 of images and texts, as in OpenAI’s API',
    isQueued: true,
    body: { 'application/json': EMBEDDINGS_REQUEST },
    // Fields are checked by hand: messages name the item that is wrong.
    parsed: { type: 'object' },
    answers: {
      200: jsonAnswer(EMBEDDINGS, 'a vector per item, in order'),
      400: { description: 'a field is wrong, or an item cannot be embedded: param names it' },
      404: { description: 'the model does not exist' },
      413: { description: 'too many bytes, or too many images' },
      503: { description: 'the queue is full; Retry-After says when to try again' },
    },
    async handle(request: FastifyRequest, reply) {
      const asked = readEmbeddingRequest(request.body as Readonly<Record<string, unknown>>);
      const output = chooseOutput(context, asked.model);
      const { dimensions } = asked;
      if (dimensions !== undefined && dimensions > output.elements)
        throw new FieldError(
          'dimensions',
          `the vectors of this model have ${output.elements} elements, fewer than dimensions (${dimensions})`,
        );
      const embedded = await embedItems(context, asked, output, context.stateOf(request));
      void reply.type('application/json; charset=utf-8');
      return toJson(asked.model ?? context.setup.name, asked.format, embedded);
    },
  };
}

function toJson(model: string, format: EmbeddingRequest['format'], { vectors, tokens }: Embedded): string {
  const data = vectors.map((vector, index) => {
    const embedding =
      format === 'float'
        ? `[${elementsToJson('float32', vector)}]`
        : `"${Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')}"`;
    return `{"object":"embedding","index":${index},"embedding":${embedding}}`;
  });
  const usage = `{"prompt_tokens":${tokens},"total_tokens":${tokens}}`;
  return `{"object":"list","data":[${data.join(',')}],"model":${JSON.stringify(model)},"usage":${usage}}`;
}
