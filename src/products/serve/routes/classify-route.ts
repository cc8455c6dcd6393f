/** `POST /classify`: images in, their classes out, for models with labels. */
import { rankClasses, type ClassScores } from '../batches/class-scores.js';
import type { ServiceContext } from './context.js';
import { embedSent, REFUSALS, type ImageResult } from './embed-route.js';
import { errorBody, HttpError } from '../http/http-error.js';
import type { Route } from '../http/route.js';
import { toFloats } from '../batches/vector-outputs.js';
import { CLASSIFIED, SENT_IMAGES, jsonAnswer } from '../bodies/schemas.js';

const DEFAULT_TOP = 5;

/** Makes the route, for a server with the parsers of `/embed`. */
export function classifyRoute(context: ServiceContext): Route {
  const { setup, classes } = context;
  return {
    method: 'POST',
    path: '/classify',
    summary:
      'Names the classes of one image or several, the likeliest first; ?top=N for another number than 5',
    isQueued: true,
    body: SENT_IMAGES,
    answers: {
      200: jsonAnswer(CLASSIFIED, 'classes; if there are several images, some may have an error instead'),
      ...REFUSALS,
      501: { description: 'the model has no labels' },
    },
    async handle(request) {
      if ('problem' in classes)
        throw new HttpError(
          'NOT_IMPLEMENTED',
          `this model does not classify: ${classes.problem} (tapir serve --labels)`,
        );
      const top = readTop(request.query);
      const results = await embedSent(context, request);
      return {
        model: setup.name,
        results: results.map((result, index) => describe(result, index, classes, top)),
      };
    },
  };
}

function describe(
  { name, features, error }: ImageResult,
  index: number,
  classes: ClassScores,
  top: number,
): unknown {
  const head = { index, ...(name === null ? {} : { name }) };
  if (features) return { ...head, classes: rankClasses(toFloats(features[classes.key]!), classes, top) };
  return { ...head, ...errorBody(error) };
}

function readTop(query: unknown): number {
  const { top = String(DEFAULT_TOP) } = query as { readonly top?: unknown };
  if (typeof top === 'string' && /^[1-9]\d{0,5}$/.test(top)) return Number(top);
  throw new HttpError('REQUEST_INVALID', 'top must be a number of classes, from 1 to 999999');
}
