/** What a run of `tapir embed` shows while it works. */
import type { EmbedProgress } from '../../datasets/embed/progress.js';
import { createProgressView } from './progress-view.js';
import { openMetricsServer } from './metrics-server.js';
import type { Terminal } from './terminal.js';

/** Progress for people or programs, and for Prometheus with `--metrics-port`. */
export interface RunView {
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
  const metrics = metricsPort === undefined ? undefined : await openMetricsServer(metricsPort);
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
