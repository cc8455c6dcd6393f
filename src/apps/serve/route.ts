/** A route as data: fastify is told of it, and the OpenAPI document. */
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods } from 'fastify';
import { HttpError } from './http-error.js';
import type { Schema } from './schemas.js';

/** A body by media type; null for one that is no JSON. */
export type Contents = Readonly<Record<string, Schema | null>>;

/** What is answered with a status. */
export interface Answer {
  readonly description: string;
  readonly contents?: Contents;
}

/** A route. */
export interface Route {
  readonly method: 'GET' | 'POST';
  /** With parameters as fastify writes them: `/v2/models/:name`. */
  readonly path: string;
  readonly summary: string;
  /** Whether it is answered without the token, and when the service is closing. */
  readonly isOpen?: boolean;
  /** Whether it is of no use to read the body while the queue of images is full. */
  readonly isQueued?: boolean;
  /** What it takes. */
  readonly body?: Contents;
  /** What the parsed body must be, whatever its media type; without it, only JSON is looked at. */
  readonly parsed?: Schema;
  /** Headers that it reads. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly answers: Readonly<Record<number, Answer>>;
  /** Replies, or returns what is sent. */
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => unknown;
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Registers routes, and an answer to the methods that a path does not have. */
export function addRoutes(app: FastifyInstance, routes: readonly Route[]): void {
  for (const route of routes) {
    const { method, path, isOpen = false, isQueued = false, handle } = route;
    app.route({
      method,
      url: path,
      config: { isOpen, isQueued },
      schema: schemaOf(route),
      handler: handle,
    });
    const allowed: readonly HTTPMethods[] = method === 'GET' ? ['GET', 'HEAD'] : [method];
    app.route({
      method: METHODS.filter((other) => !allowed.includes(other)),
      url: path,
      handler: (request, reply) => {
        void reply.header('allow', allowed.join(', '));
        throw new HttpError('METHOD_NOT_ALLOWED', `${path} takes ${method}, not ${request.method}`);
      },
    });
  }
}

function schemaOf({ body, parsed }: Route): FastifySchema {
  if (parsed) return { body: parsed };
  const schema = body?.['application/json'];
  return schema ? { body: { content: { 'application/json': { schema } } } } : {};
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** See {@link Route.isOpen}. */
    isOpen?: boolean;
    /** See {@link Route.isQueued}. */
    isQueued?: boolean;
  }
}
