/** A route as data. Fastify validates requests with it, and @fastify/swagger documents it. */
import type { FastifyInstance, FastifyReply, FastifyRequest, FastifySchema, HTTPMethods } from 'fastify';
// Adds what the plugin reads to the types of schemas and routes.
import type {} from '@fastify/swagger';
import { HttpError } from './http-error.js';

export type Schema = Readonly<Record<string, unknown>>;

/** A body by media type; null for bytes or plain text. */
export type Contents = Readonly<Record<string, Schema | null>>;

/** The answer with a status. */
export interface Answer {
  readonly description: string;
  readonly contents?: Contents;
}

export interface Route {
  readonly method: 'GET' | 'POST';
  /** With parameters in Fastify's notation: `/v1/models/:model`. */
  readonly path: string;
  readonly summary: string;
  /** Whether the route answers without the token, and while the service is closing. */
  readonly isOpen?: boolean;
  /** Whether to refuse a request before its body is read while the queue of images is full. */
  readonly isQueued?: boolean;
  /** The bodies that the route takes; they may be compressed. */
  readonly body?: Contents;
  /** Schema of the parsed body, for every media type. Without it, only JSON is validated. */
  readonly parsed?: Schema;
  readonly answers: Readonly<Record<number, Answer>>;
  /** Replies, or returns the body of the reply. */
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => unknown;
}

/** What all routes of a service share. */
export interface RouteDefaults {
  /** Describes every answer that is not listed. */
  readonly error: (path: string) => Answer;
  readonly hasToken: boolean;
}

const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Registers routes, and answers the methods that a path does not have. */
export function addRoutes(app: FastifyInstance, routes: readonly Route[], defaults: RouteDefaults): void {
  for (const route of routes) {
    const { method, path, handle } = route;
    app.route({
      method,
      url: path,
      config: {
        route,
        // Fastify validates parsed bodies only; the document describes all of them.
        swaggerTransform: ({ schema, url }: { schema: FastifySchema; url: string }) => ({
          schema: { ...schema, body: route.body && { content: documentContents(route.body) } },
          url,
        }),
      },
      schema: schemaOf(route, defaults),
      handler: handle,
    });
    const allowed: readonly HTTPMethods[] = method === 'GET' ? ['GET', 'HEAD'] : [method];
    app.route({
      method: METHODS.filter((other) => !allowed.includes(other)),
      url: path,
      schema: { hide: true },
      handler: (request, reply) => {
        void reply.header('allow', allowed.join(', '));
        throw new HttpError('METHOD_NOT_ALLOWED', `${path} takes ${method}, not ${request.method}`);
      },
    });
  }
}

function schemaOf(route: Route, { error, hasToken }: RouteDefaults): FastifySchema {
  const { path, summary, body, parsed, answers, isOpen } = route;
  const json = body?.['application/json'];
  return {
    summary,
    ...(parsed
      ? { body: parsed }
      : json
        ? { body: { content: { 'application/json': { schema: json } } } }
        : {}),
    response: mapValues({ ...answers, default: error(path) }, documentAnswer),
    ...(hasToken && isOpen !== true ? { security: [{ token: [] }] } : {}),
  };
}

function mapValues<From, To>(
  record: Readonly<Record<string, From>>,
  map: (value: From, key: string) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}

function documentAnswer({ description, contents }: Answer): Schema {
  return { description, ...(contents ? { content: documentContents(contents) } : { type: 'null' }) };
}

function documentContents(contents: Contents): Schema {
  return mapValues(contents, (schema, type) => {
    const plain = type.startsWith('text/') ? {} : { contentMediaType: type };
    return { schema: schema ?? { type: 'string', ...plain } };
  });
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Undefined where there is no route. */
    route?: Route;
  }
}
