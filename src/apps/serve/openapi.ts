/** The OpenAPI 3.1 document of a service, made of its routes. */
import type { Answer, Contents, Route } from './route.js';
import { ERROR, V2_ERROR, type Schema } from './schemas.js';

/** What the document says of the service. */
export interface OpenApiFacts {
  readonly version: string;
  readonly hasToken: boolean;
}

function contentOf(contents: Contents): Schema {
  const entries = Object.entries(contents).map(([type, schema]): [string, Schema] => {
    const plain = type.startsWith('text/') ? {} : { contentMediaType: type };
    return [type, { schema: schema ?? { type: 'string', ...plain } }];
  });
  return Object.fromEntries(entries);
}

function answerOf({ description, contents }: Answer): Schema {
  return { description, ...(contents ? { content: contentOf(contents) } : {}) };
}

function operationOf(route: Route, { hasToken }: OpenApiFacts): Schema {
  const { path, summary, body, headers = {}, answers, isOpen } = route;
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inHeader = Object.entries(headers).map(([name, description]) => ({
    name,
    in: 'header',
    description,
    schema: { type: 'string' },
  }));
  const error: Answer = {
    description: 'refused, or failed',
    contents: { 'application/json': path.startsWith('/v2') ? V2_ERROR : ERROR },
  };
  return {
    summary,
    ...(inPath.length + inHeader.length > 0 ? { parameters: [...inPath, ...inHeader] } : {}),
    ...(body ? { requestBody: { required: true, content: contentOf(body) } } : {}),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, answerOf(answer)])),
      default: answerOf(error),
    },
    ...(hasToken && isOpen !== true ? { security: [{ token: [] }] } : {}),
  };
}

/** Makes the document. */
export function createOpenApi(routes: readonly Route[], facts: OpenApiFacts): Schema {
  const paths: Record<string, Record<string, Schema>> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, facts) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'onnx-tapir',
      version: facts.version,
      description: 'Features of images, by HTTP: /embed, and the Open Inference Protocol (version 2).',
    },
    paths,
    ...(facts.hasToken
      ? { components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } } }
      : {}),
  };
}
