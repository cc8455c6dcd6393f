/** What a service counts, in Prometheus' text format. */
import type { Gauge, Registry } from 'prom-client';
import { replyOf } from './http-error.js';

/** What is only known when it is asked for. */
export interface Gauges {
  readonly queued: number;
  readonly running: number;
  readonly requests: number;
}

/** The counters of one service. */
export interface Metrics {
  /** A request is over; status 499 where its client went away before the answer. */
  request(route: string, status: number, seconds: number): void;
  /** An image has its features, or has failed with a code. */
  image(code: string): void;
  /** A run of images is over. */
  run(images: number, seconds: number): void;
  readonly contentType: string;
  /** All of them, as text. */
  text(): Promise<string>;
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Powers of two up to a size, and that size. */
function sizesUpTo(most: number): number[] {
  const sizes = Array.from({ length: Math.ceil(Math.log2(most)) }, (_, i) => 2 ** i);
  return [...sizes, most];
}

/**
 * Makes the counters, in a registry of their own: several services in a process do not mix.
 *
 * @param maxBatch - Images per run at most.
 * @param gauges - Asked whenever the text is.
 */
export async function createMetrics(maxBatch: number, gauges: () => Gauges): Promise<Metrics> {
  const { Counter, Gauge: OwnGauge, Histogram, Registry: OwnRegistry } = await import('prom-client');
  const registry: Registry = new OwnRegistry();
  const registers = [registry];
  const requests = new Counter({
    name: 'tapir_requests_total',
    help: 'Requests answered, by route and status; 499 where the client left before',
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
  const batches = new Histogram({
    name: 'tapir_batch_images',
    help: 'Images per run',
    buckets: sizesUpTo(maxBatch),
    registers,
  });
  const runs = new Histogram({
    name: 'tapir_run_seconds',
    help: 'Time of a run of the model, waiting for its session included',
    buckets: SECONDS,
    registers,
  });
  const gauge = (name: string, help: string, pick: (now: Gauges) => number): void => {
    const one: Gauge = new OwnGauge({ name, help, registers, collect: () => one.set(pick(gauges())) });
  };
  gauge('tapir_queue_images', 'Images that are not yet part of a run', ({ queued }) => queued);
  gauge('tapir_runs_in_flight', 'Runs handed to the sessions', ({ running }) => running);
  gauge('tapir_requests_in_flight', 'Requests that are being answered', (now) => now.requests);
  return {
    request(route, status, seconds) {
      requests.inc({ route, status });
      latency.observe({ route }, seconds);
    },
    image: (code) => images.inc({ code }),
    run(count, seconds) {
      batches.observe(count);
      runs.observe(seconds);
    },
    contentType: registry.contentType,
    text: () => registry.metrics(),
  };
}

/** Counts what has become of an image. */
export function countImage(metrics: Metrics, settled: PromiseSettledResult<unknown>): void {
  metrics.image(settled.status === 'fulfilled' ? 'ok' : replyOf(settled.reason).code);
}
