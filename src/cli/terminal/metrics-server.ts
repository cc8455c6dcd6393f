/** The figures of a run for Prometheus. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { checkInteger, invalidOption } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import type { EmbedProgress } from '../../datasets/embed/progress.js';

export interface MetricsServer {
  readonly url: string;
  update(progress: EmbedProgress): void;
  close(): Promise<void>;
}

/** Serves `GET /metrics` to this machine only; port 0 chooses a free one. Throws `OPTION_INVALID` for a port that cannot be used. */
export async function openMetricsServer(port: number): Promise<MetricsServer> {
  checkInteger('--set metricsPort', port, 0, 65_535);
  const { Gauge, Registry } = await import('prom-client');
  const registry = new Registry();
  const gauge = (name: string, help: string): InstanceType<typeof Gauge> =>
    new Gauge({ name: `tapir_embed_${name}`, help, registers: [registry] });
  const done = gauge('images_done', 'Inputs finished by this run, failed ones included.');
  const failed = gauge('images_failed', 'Inputs that failed in this run.');
  const skipped = gauge('images_skipped', 'Inputs that the dataset already held.');
  const total = gauge('images_total', 'Inputs of the source; absent while they are being counted.');
  const rate = gauge('images_per_second', 'Over the last ten seconds.');
  const seconds = gauge('seconds', 'Seconds since the run began.');
  const limit = new Gauge({
    name: 'tapir_embed_limited_by',
    help: '1 for what the run waits for.',
    labelNames: ['what'],
    registers: [registry],
  });
  const busy = new Gauge({
    name: 'tapir_embed_device_busy_ratio',
    help: 'Share of the last ten seconds that a device was at work.',
    labelNames: ['device'],
    registers: [registry],
  });
  total.remove();
  const server = createServer((request, response) => {
    const isMetrics = request.method === 'GET' && request.url?.split('?')[0] === '/metrics';
    if (!isMetrics) return response.writeHead(404).end('GET /metrics\n');
    void registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      (error: unknown) => response.writeHead(500).end(reasonOf(error)),
    );
    return undefined;
  });
  await once(server.listen(port, '127.0.0.1'), 'listening').catch((error: unknown) => {
    throw invalidOption('--set metricsPort', `a free port (${reasonOf(error)})`, port);
  });
  // The server must not keep the process alive after the run.
  server.unref();
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`,
    update(progress) {
      done.set(progress.done);
      failed.set(progress.failed);
      skipped.set(progress.skipped);
      if (progress.total !== null) total.set(progress.total);
      rate.set(progress.imagesPerSecond);
      seconds.set(progress.seconds);
      for (const what of ['decode', 'device']) limit.set({ what }, progress.limit === what ? 1 : 0);
      for (const one of progress.devices) busy.set({ device: one.device }, one.busy);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
