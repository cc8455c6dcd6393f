/** The error file of a process that torchrun has launched: torchrun prints it as the cause of a failure. */
import { writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { messageOf } from './exit-code.js';

/**
 * Writes the file that `TORCHELASTIC_ERROR_FILE` names, in the format of `torch.distributed.elastic.multiprocessing.errors`. Torchrun
 * prints the `py_callstack` of the first process that fails as the root cause. Without the variable nothing happens.
 *
 * @param env - Environment variables, such as `process.env`.
 * @param error - The error that ended the process.
 */
export function writeErrorFile(env: Readonly<Record<string, string | undefined>>, error: unknown): void {
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
    // The error is printed to standard error in any case.
  }
}
