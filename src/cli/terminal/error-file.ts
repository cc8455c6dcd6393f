/** What a process that fails under torchrun leaves for it, so that it prints the cause. */
import { writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import type { Environment } from '../flags/launcher.js';
import { messageOf } from './exit-code.js';

/**
 * Writes the file that torchrun names in `TORCHELASTIC_ERROR_FILE`, as `torch.distributed.elastic.multiprocessing.errors` does: of
 * the first process to fail, torchrun prints `py_callstack` as the root cause. Nothing is done elsewhere.
 *
 * @param env - See {@link Environment}.
 * @param error - What ended the process.
 */
export function writeErrorFile(env: Environment, error: unknown): void {
  const path = env['TORCHELASTIC_ERROR_FILE'] ?? '';
  if (path === '') return;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const callstack = `${messageOf(error)}${inspect(error, { depth: 4 })}`;
  const content = {
    message: {
      message: messageOf(error).trim(),
      extraInfo: { py_callstack: callstack, timestamp },
    },
  };
  try {
    writeFileSync(path, JSON.stringify(content));
  } catch {
    // The error itself goes to standard error all the same.
  }
}
