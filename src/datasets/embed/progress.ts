/** The progress of a run: how far, how fast, and what limits it. */
import type { Progress } from '../../base/progress.js';
import { extractorInternals, type Extractor } from '../../extract/extractor.js';
import type { EmbeddedBatch } from './embed-batches.js';

/** The progress of a run. */
export interface EmbedProgress extends Progress {
  readonly unit: 'images';
  /** Inputs that this run has finished, failed inputs included. */
  readonly done: number;
  readonly failed: number;
  /** Inputs that the dataset contains already, as far as the source was read. */
  readonly skipped: number;
  /** Inputs of the source, counted in the background; null until the count is known. */
  readonly total: number | null;
  readonly seconds: number;
  /** Over the last ten seconds. */
  readonly imagesPerSecond: number;
  /** Remaining seconds at that speed; null until the total is known. */
  readonly etaSeconds: number | null;
  /** The busy share of each device over the last ten seconds, from 0 to 1. */
  readonly devices: readonly { readonly device: string; readonly busy: number }[];
  /** What limits the speed: decoding or the devices; null at the beginning. */
  readonly limit: 'decode' | 'device' | null;
}

const WINDOW_SECONDS = 10;
/** If devices are busier than this, images wait for them. */
const BUSY = 0.85;

interface Sample {
  readonly seconds: number;
  readonly done: number;
  /** Per device. */
  readonly runMs: readonly number[];
}

export class ProgressMeter {
  readonly #extractor: Extractor;
  readonly #started = performance.now();
  readonly #window: Sample[] = [];
  /** The number of inputs that are finished, failed ones included. */
  done = 0;
  failed = 0;

  constructor(extractor: Extractor) {
    this.#extractor = extractor;
    this.#sample();
  }

  get seconds(): number {
    return Math.round(performance.now() - this.#started) / 1000;
  }

  add({ items }: EmbeddedBatch): void {
    for (const { error, cut } of items) {
      // A picture is done with its last tile.
      if ((cut?.next ?? null) === null) this.done++;
      if (error) this.failed++;
    }
    this.#sample();
  }

  /** Returns the progress after the latest batch. */
  progress(skipped: number, total: number | null): EmbedProgress {
    const first = this.#window[0]!;
    const last = this.#window.at(-1)!;
    const seconds = last.seconds - first.seconds;
    const imagesPerSecond = seconds > 0 ? (last.done - first.done) / seconds : 0;
    const left = total === null ? null : Math.max(0, total - skipped - this.done);
    const devices = this.#load(first, last, seconds);
    const busy = devices.reduce((sum, device) => sum + device.busy, 0) / devices.length;
    return {
      done: this.done,
      failed: this.failed,
      skipped,
      total,
      unit: 'images',
      seconds: this.seconds,
      imagesPerSecond,
      etaSeconds: left === null || imagesPerSecond === 0 ? null : left / imagesPerSecond,
      devices,
      limit: seconds === 0 ? null : busy >= BUSY ? 'device' : 'decode',
    };
  }

  #load(first: Sample, last: Sample, seconds: number): EmbedProgress['devices'] {
    const sessions = extractorInternals.of(this.#extractor).sessions.length / last.runMs.length;
    const names = this.#extractor.device.split(', ');
    return last.runMs.map((ms, device) => ({
      device: names[device] ?? this.#extractor.device,
      busy: seconds > 0 ? Math.min(1, (ms - first.runMs[device]!) / (1000 * seconds * sessions)) : 0,
    }));
  }

  #sample(): void {
    const runMs = extractorInternals.of(this.#extractor).spent.map((spent) => spent.runMs);
    this.#window.push({ seconds: (performance.now() - this.#started) / 1000, done: this.done, runMs });
    const since = this.#window.at(-1)!.seconds - WINDOW_SECONDS;
    while (this.#window.length > 2 && this.#window[1]!.seconds <= since) this.#window.shift();
  }
}
