/** Routes that describe the service. */
import type { ServiceContext } from './context.js';
import type { Route } from '../http/route.js';
import { jsonAnswer } from '../bodies/schemas.js';

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
        return `onnx-tapir ${version}: model "${setup.name}" on ${extractor.device}, output ${outputs}

curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' URL/embed
curl -F image=@a.jpg -F image=@b.png URL/embed

/openapi.json   all routes
/v1/embeddings  OpenAI's API: ${inputs}
/classify       ${labels}
/v2             Open Inference Protocol
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
