/** Routes that describe the service, and those for probes. */
import { describePrecision } from '../../../run/runtime/capabilities/capabilities.js';
import type { ServiceContext } from './context.js';
import type { Route } from '../http/route.js';
import { flag, jsonAnswer } from '../bodies/schemas.js';

/** @param readDocument - Returns the OpenAPI document. */
export function infoRoutes(
  { metrics, setup, extractor, version, texts, classes }: ServiceContext,
  readDocument: () => unknown,
): Route[] {
  return [
    {
      method: 'GET',
      path: '/',
      summary: 'What this is, as text',
      answers: { 200: { description: 'a few lines', contents: { 'text/plain': null } } },
      handle: (_, reply) => {
        const outputs = extractor.outputs.map(({ name }) => name).join(', ');
        const inputs = texts ? 'images and texts' : 'images';
        const labels =
          'problem' in classes ? `not available: ${classes.problem}` : `${classes.labels.length} classes`;
        void reply.type('text/plain; charset=utf-8');
        const engine = `${extractor.engine}, ${describePrecision(extractor)}`;
        return `onnx-tapir ${version}: model "${setup.name}" on ${extractor.device} (${engine}), output ${outputs}

curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' URL/embed
curl -F image=@a.jpg -F image=@b.png URL/embed

/openapi.json   all routes
/v1/embeddings  OpenAI's API: ${inputs}
/classify       ${labels}
/health/ready   for probes; /health/live too
/metrics        Prometheus
`;
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      summary: 'Counters, in Prometheus’ text format',
      answers: { 200: { description: 'the counters', contents: { 'text/plain': null } } },
      handle: async (_, reply) => {
        const text = await metrics.print();
        void reply.type(metrics.contentType);
        return text;
      },
    },
    {
      method: 'GET',
      path: '/openapi.json',
      summary: 'This document',
      answers: { 200: jsonAnswer({ type: 'object' }, 'OpenAPI 3.1') },
      handle: readDocument,
    },
  ];
}

/** Whether the process answers, and whether the service takes work: for probes, which need no token. */
export function healthRoutes({ isReady }: ServiceContext): Route[] {
  return [
    {
      method: 'GET',
      path: '/health/live',
      summary: 'Whether the process answers',
      isOpen: true,
      answers: { 200: jsonAnswer(flag('live')) },
      handle: () => ({ live: true }),
    },
    {
      method: 'GET',
      path: '/health/ready',
      summary: 'Whether the service takes work',
      isOpen: true,
      answers: { 200: jsonAnswer(flag('ready')), 503: { description: 'shutting down' } },
      handle: (_, reply) => {
        const ready = isReady();
        if (!ready) void reply.code(503);
        return { ready };
      },
    },
  ];
}
