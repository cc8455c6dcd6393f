/** The counters of a service, in Prometheus' text format. */
import type { Gauge, Registry } from 'prom-client';
import { replyOf } from '../http/http-error.js';

/** Values that are read when the text is requested. */
export interface Gauges {
  readonly queued: number;
  readonly running: number;
  readonly requests: number;
  /** Texts that are not part of a run yet. */
  readonly queuedTexts: number;
}

export interface Metrics {
  /** Counts a finished request; status 499 if its client left before the answer. */
  request(route: string, status: number, seconds: number): void;
  /** Counts an image, embedded or failed. */
  image(settled: PromiseSettledResult<unknown>): void;
  /** Counts a text in the same way. */
  text(settled: PromiseSettledResult<unknown>): void;
  run(images: number, seconds: number): void;
  readonly contentType: string;
  /** Returns all counters as text. */
  print(): Promise<string>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The powers of two below a size, and the size itself. */
function sizesUpTo(most: number): number[] {
  const sizes = Array.from({ length: Math.ceil(Math.log2(most)) }, (_, i) => 2 ** i);
  return [...sizes, most];
}

/** Makes the counters in a separate registry, so that several services in a process do not mix. */
export async function createMetrics(maxBatch: number, gauges: () => Gauges): Promise<Metrics> {
  const { Counter, Gauge: OwnGauge, Histogram, Registry: OwnRegistry } = await import('prom-client');
  const registry: Registry = new OwnRegistry();
  const registers = [registry];
  const requests = new Counter({
    name: 'tapir_requests_total',
    help: 'Requests answered, by route and status; 499 if the client left before',
    labelNames: ['route', 'status'],
    registers,
  });
  const latency = new Histogram({
    name: 'tapir_request_seconds',
    help: 'Time from the headers of a request to the end of its answer',
    labelNames: ['route'],
    buckets: SECONDS,
    registers,
  });
  const images = new Counter({
    name: 'tapir_images_total',
    help: 'Images embedded (code "ok") or failed, by code',
    labelNames: ['code'],
    registers,
  });
  const texts = new Counter({
    name: 'tapir_texts_total',
    help: 'Texts embedded (code "ok") or failed, by code',
    labelNames: ['code'],
    registers,
  });
  const batches = new Histogram({
    name: 'tapir_batch_images',
    help: 'Images per run',
    buckets: sizesUpTo(maxBatch),
    registers,
  });
  const runs = new Histogram({
    name: 'tapir_run_seconds',
    help: 'Time of a run of the model, including the wait for its session',
    buckets: SECONDS,
    registers,
  });
  const gauge = (name: string, help: string, pick: (now: Gauges) => number): void => {
    const one: Gauge = new OwnGauge({ name, help, registers, collect: () => one.set(pick(gauges())) });
  };
  gauge('tapir_queue_images', 'Images that are not part of a run yet', ({ queued }) => queued);
  gauge('tapir_queue_texts', 'Texts that are not part of a run yet', ({ queuedTexts }) => queuedTexts);
  gauge('tapir_runs_in_flight', 'Runs handed to the sessions', ({ running }) => running);
  gauge('tapir_requests_in_flight', 'Requests that are being answered', (now) => now.requests);
  return {
    request(route, status, seconds) {
      requests.inc({ route, status });
      latency.observe({ route }, seconds);
    },
    image: (settled) => images.inc({ code: codeOf(settled) }),
    text: (settled) => texts.inc({ code: codeOf(settled) }),
    run(count, seconds) {
      batches.observe(count);
      runs.observe(seconds);
    },
    contentType: registry.contentType,
    print: () => registry.metrics(),
  };
}

function codeOf(settled: PromiseSettledResult<unknown>): string {
  return settled.status === 'fulfilled' ? 'ok' : replyOf(settled.reason).code;
}
