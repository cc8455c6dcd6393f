/** The photos that a command could not read. */
import { counted, shown } from '../../base/printable.js';
import type { PhotoFailure } from '../../datasets/embed/photo-batches.js';
import type { TrainFailure } from '../../learn/train/folder/training-photos.js';
import { EXIT } from './exit-code.js';
import type { Terminal } from './terminal.js';

const MOST_SHOWN = 3;

/** Names photos that were left out. Exit code 1 if there are some. */
export function reportLeftOut(terminal: Terminal, failures: readonly (PhotoFailure | TrainFailure)[]): void {
  if (failures.length === 0) return;
  terminal.exitCode = EXIT.someFailed;
  terminal.err(`${counted(failures.length, 'photo')} left out, which could not be read:\n`);
  for (const failure of failures.slice(0, MOST_SHOWN)) {
    const { message } = 'error' in failure ? failure.error : failure;
    terminal.err(`  ${shown(failure.path ?? '(bytes)')}: ${shown(message)}\n`);
  }
}
