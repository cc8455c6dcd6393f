import { expect, it } from 'vitest';
import { HttpError } from '../../../../src/products/serve/http/http-error.js';
import { createMetrics } from '../../../../src/products/serve/batches/metrics.js';

it('counts images and texts by code', async () => {
  const none = { queued: 0, queuedTexts: 0, running: 0, requests: 0 };
  const metrics = await createMetrics(8, () => none);
  const left = { status: 'rejected', reason: new HttpError('CLIENT_GONE', 'the client went away') } as const;
  metrics.image({ status: 'fulfilled', value: null });
  metrics.text(left);
  const text = await metrics.print();
  expect(text).toContain('tapir_images_total{code="ok"} 1');
  expect(text).toContain('tapir_texts_total{code="CLIENT_GONE"} 1');
});
