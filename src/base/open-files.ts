/** Recognises that a limit on open files has been reached. */
import { TapirError } from './errors.js';

const ADVICE = {
  EMFILE:
    'this process has too many files open; raise its limit ("ulimit -n 4096" in the shell that starts it) and run again',
  ENFILE:
    'the system has too many files open; close other programs or raise its limit (fs.file-max on Linux) and run again',
} as const;

/**
 * Returns the typed error if an error means that no more files can be opened; else undefined. The file itself is not to blame
 * then, so the caller must not skip it.
 */
export function tooManyOpenFiles(error: unknown): TapirError<'TOO_MANY_OPEN_FILES'> | undefined {
  if (!(error instanceof Error) || error instanceof TapirError) return undefined;
  // Threads that cannot start have the code only in their message.
  const code = /\b(EMFILE|ENFILE)\b/.exec(
    `${'code' in error ? String(error.code) : ''} ${error.message}`,
  )?.[0];
  if (code !== 'EMFILE' && code !== 'ENFILE') return undefined;
  return new TapirError('TOO_MANY_OPEN_FILES', `${ADVICE[code]} (${code})`, {
    details: { code },
    cause: error,
  });
}

/** Throws `TOO_MANY_OPEN_FILES` if that is what an error means. */
export function checkOpenFiles(error: unknown): void {
  const limit = tooManyOpenFiles(error);
  if (limit) throw limit;
}
