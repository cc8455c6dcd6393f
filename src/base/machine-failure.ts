/** Tells what this machine lacks (open files, memory, disk) from what is wrong with a file. The only place that does. */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { freeBytes } from './atomic-file.js';
import { TapirError, reasonOf } from './errors.js';

const OPEN_FILES = {
  EMFILE:
    'this process has too many files open; raise its limit ("ulimit -n 4096" in the shell that starts it) and run again',
  ENFILE:
    'the system has too many files open; close other programs or raise its limit (fs.file-max on Linux) and run again',
} as const;

/** In the words of Node.js, V8, libvips, libjpeg, libheif and C++. What breaks a limit of libheif's own is the file's fault. */
const MEMORY =
  /\bENOMEM\b|\bout of memory\b|insufficient memory|array buffer allocation failed|memory allocation (?:error(?!.*security limit)|failed)|cannot allocate memory|could not allocate memory|bad_alloc/i;

/** How the names of temporary folders begin. */
export const TEMPORARY_PREFIX = 'tapir-temporary-';
/** A file in a temporary folder, or one that libvips makes by itself. */
const TEMPORARY = new RegExp(`[/\\\\](?:${TEMPORARY_PREFIX}|vips-\\d+-\\d+)`);

/** What failed, for the message. */
export interface FailedStep {
  /** As in "memory ran out while …". */
  readonly doing?: string | undefined;
  /** The name of the file that is read: it says nothing about the machine, whatever it is called. */
  readonly label?: string;
}

/**
 * Returns the typed error if an error means that the machine lacks something; else undefined. The file that was being read is not to
 * blame then, so the caller must not skip it.
 */
export function machineFailure(error: unknown, { doing, label }: FailedStep = {}): TapirError | undefined {
  if (!(error instanceof Error) || error instanceof TapirError) return undefined;
  const { code = '', syscall } = error as NodeJS.ErrnoException;
  // A system's message contains a path. Threads that cannot start have the code only in their message.
  const said = syscall === undefined ? `${code} ${error.message}` : code;
  const text = label === undefined ? said : said.replaceAll(label, '');
  if (TEMPORARY.test(text)) return temporaryFailure(error, { doing });
  const found = isModuleThere(error) ? 'EMFILE' : /\b(EMFILE|ENFILE)\b/.exec(text)?.[0];
  const limit = found as keyof typeof OPEN_FILES | undefined;
  if (limit !== undefined)
    return new TapirError('TOO_MANY_OPEN_FILES', `${OPEN_FILES[limit]} (${limit})`, {
      details: { code: limit },
      cause: error,
    });
  if (!MEMORY.test(text)) return undefined;
  const reason = `memory ran out${doing === undefined ? '' : ` while ${doing}`}`;
  const advice =
    'use fewer decoding threads and sessions (option "decodeThreads", option "sessions"), leave larger photos out (limitPixels of the transform), or give the process more memory';
  return new TapirError('OUT_OF_MEMORY', `${reason}; ${advice}`, { details: { reason }, cause: error });
}

/**
 * Whether Node.js did not find a module that is there: it says so as well where it could not open another file. Of a package whose
 * package.json it could not open, it names an index.js that may not be there.
 */
function isModuleThere(error: NodeJS.ErrnoException): boolean {
  const path = error.code === 'ERR_MODULE_NOT_FOUND' ? /'(\/[^']+)'/.exec(error.message)?.[1] : undefined;
  return path !== undefined && (existsSync(path) || existsSync(join(dirname(path), 'package.json')));
}

/** Throws the typed error if that is what an error means. */
export function checkMachine(error: unknown, step?: FailedStep): void {
  const failure = machineFailure(error, step);
  if (failure) throw failure;
}

/** Makes the error for a temporary file or folder that cannot be written or read again. It names the folder and its free space. */
export function temporaryFailure(
  error: unknown,
  { doing }: FailedStep = {},
): TapirError<'OUTPUT_UNWRITABLE'> {
  const path = tmpdir();
  // libvips tells the same failure several times over, a line each; Node.js adds the call and the path.
  const [, said = reasonOf(error).replace(/, \w+(?: '.*')?$/, '')] =
    /system error: (.+)/.exec(String(error)) ?? [];
  const free = freeBytes(path);
  const reason = [
    said,
    ...(free === null ? [] : [`(${free} bytes are free)`]),
    ...(doing === undefined ? [] : [`while ${doing}`]),
  ].join(' ');
  const advice = 'free some space there, or name another folder (environment variable TMPDIR), and run again';
  const message = `cannot use the folder of temporary files, "${path}": ${reason}; ${advice}`;
  return new TapirError('OUTPUT_UNWRITABLE', message, { details: { path, reason }, cause: error });
}
