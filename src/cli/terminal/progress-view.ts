/** The progress of commands. */
import { counted, shown } from '../../base/printable.js';
import type { Progress } from '../../base/progress.js';
import type { EmbedProgress } from '../../datasets/embed/progress.js';
import { formatBytes } from '../../base/html/numbers.js';
import type { Terminal } from './terminal.js';

/** Shows progress. Its functions may be handed on alone. */
interface ProgressView {
  readonly show: (progress: Progress | EmbedProgress) => void;
  readonly end: () => void;
}

const LINE_EVERY_SECONDS = 10;
const EVENT_EVERY_SECONDS = 1;
/** A terminal shows no more, and every update costs time. */
const REDRAW_EVERY_SECONDS = 0.1;

/** Creates a view: one rewritten line on a terminal, a line every ten seconds elsewhere, or JSON events for programs. */
export function createProgressView(terminal: Terminal, isJson: boolean): ProgressView {
  if (isJson) return createEvents(terminal);
  return terminal.isTerminal ? createProgressLine(terminal) : createLog(terminal);
}

/** A line of JSON per second and at the end. */
function createEvents(terminal: Terminal): ProgressView {
  return throttle(EVENT_EVERY_SECONDS, (progress) =>
    terminal.out(`${JSON.stringify({ event: 'progress', ...progress })}\n`),
  );
}

function createLog(terminal: Terminal): ProgressView {
  const describe = describer();
  return throttle(LINE_EVERY_SECONDS, (progress) => terminal.err(`${describe(progress)}\n`), false);
}

/** Watched work: what stops it, and who hears how far it is. */
interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
}

/** Shows the progress of work in one rewritten line; nothing where there is no terminal. */
export function withProgressLine<Result>(
  terminal: Terminal,
  work: (watch: Watch) => Promise<Result>,
): Promise<Result> {
  const view = createProgressLine(terminal);
  return work({ signal: terminal.signal, onProgress: view.show }).finally(view.end);
}

/** As {@link withProgressLine}; where there is no terminal, a line for each step of the work, unless `isQuiet`. */
export function withStepLines<Result>(
  terminal: Terminal,
  isQuiet: boolean,
  work: (watch: Watch) => Promise<Result>,
): Promise<Result> {
  if (terminal.isTerminal) return withProgressLine(terminal, work);
  const describe = describer();
  const onProgress = (progress: Progress): void => {
    if (!isQuiet && progress.unit === 'steps') terminal.err(`${describe(progress)}\n`);
  };
  return work({ signal: terminal.signal, onProgress });
}

function createProgressLine(terminal: Terminal): ProgressView {
  const describe = describer();
  const view = throttle(REDRAW_EVERY_SECONDS, (progress) => terminal.rewrite(describe(progress)));
  let isOpen = false;
  return {
    show(progress) {
      if (!terminal.isTerminal) return;
      isOpen = true;
      view.show(progress);
    },
    end() {
      view.end();
      if (isOpen) terminal.err('\n');
      isOpen = false;
    },
  };
}

/** Shows at most one update in so many seconds, all steps, and the last update if `isLastShown`. */
function throttle(everySeconds: number, show: ProgressView['show'], isLastShown = true): ProgressView {
  let next = isLastShown ? 0 : everySeconds;
  let held: Progress | undefined;
  return {
    show(progress) {
      held = progress;
      const seconds = 'seconds' in progress ? progress.seconds : performance.now() / 1000;
      if (seconds < next && progress.unit !== 'steps') return;
      held = undefined;
      next = seconds + everySeconds;
      show(progress);
    },
    end() {
      if (held && isLastShown) show(held);
      held = undefined;
    },
  };
}

/** Shorter waits need no estimate, and have not shown a rate yet. */
const ESTIMATE_AFTER_SECONDS = 2;

/** Describes progress in a line, with the time left where a rate tells it: `compared 40 % of all pairs, 12 s left`. */
function describer(): (progress: Progress | EmbedProgress) => string {
  let first: { readonly work: string; readonly done: number; readonly at: number } | undefined;
  return (progress) => {
    if ('seconds' in progress) return describeEmbedding(progress);
    const { done, total, unit, what } = progress;
    if (unit === 'steps') return shown(what!) + (total === null ? '' : ` (${done + 1} of ${total})`);
    const now = performance.now() / 1000;
    const work = `${unit} ${what}`;
    if (first?.work !== work) first = { work, done, at: now };
    const seconds = now - first.at;
    const rate = (done - first.done) / seconds;
    const hasRate = seconds > ESTIMATE_AFTER_SECONDS && rate > 0 && total !== null;
    const left = hasRate ? `, ${formatSeconds((total - done) / rate)} left` : '';
    if (unit === 'pairs') return `compared ${Math.floor((100 * done) / (total || 1))} % of all pairs${left}`;
    if (unit !== 'bytes') {
      const share =
        total === null || total === 0 ? `${done} ${unit}` : `${Math.floor((100 * done) / total)} %`;
      return `${shown(what!)}: ${share}${left}`;
    }
    const of = total === null ? '' : ` of ${formatBytes(total)}`;
    return `${shown(what!)}: ${formatBytes(done)}${of}${left}`;
  };
}

/** `1200 of 10000 images, 57.3/s, 2 min left, 3 failed, waiting for images; cpu 62 %`. */
function describeEmbedding({ done, failed, skipped, total, ...rest }: EmbedProgress): string {
  const { imagesPerSecond, etaSeconds, devices, limit } = rest;
  const all = total === null ? undefined : Math.max(total - skipped, done);
  const parts = [
    all === undefined ? counted(done, 'image') : `${done} of ${counted(all, 'image')}`,
    `${imagesPerSecond.toFixed(1)}/s`,
    ...(etaSeconds === null ? [] : [`${formatSeconds(etaSeconds)} left`]),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(skipped > 0 ? [`${skipped} already there`] : []),
    ...(limit === null ? [] : [limit === 'decode' ? 'waiting for images' : 'waiting for the model']),
  ];
  const load = devices.map(({ device, busy }) => `${device} ${Math.round(100 * busy)} %`).join(', ');
  return `${parts.join(', ')}; ${load}`;
}

function formatSeconds(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86_400).toFixed(1)} days`;
}

/** Progress for people or programs, and for Prometheus with `--set metricsPort=…`. */
interface RunView {
  show(progress: EmbedProgress): void;
  /** Ends the line of progress, so that other output starts on a new line. Idempotent. */
  end(): void;
  close(): Promise<void>;
}

/** Opens a view. Throws `OPTION_INVALID` for a port that cannot be used. */
export async function openRunView(
  terminal: Terminal,
  metricsPort: number | undefined,
  isJson: boolean,
): Promise<RunView> {
  const progress = createProgressView(terminal, isJson);
  // Of a server, only runs that have one load the code.
  const metrics =
    metricsPort === undefined
      ? undefined
      : await (await import('./metrics-server.js')).openMetricsServer(metricsPort);
  if (metrics) terminal.err(`metrics: ${metrics.url}\n`);
  return {
    show(now) {
      progress.show(now);
      metrics?.update(now);
    },
    end: () => progress.end(),
    async close() {
      progress.end();
      await metrics?.close();
    },
  };
}
