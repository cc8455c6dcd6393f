/** The command `tapir` in a process: its signals and streams. run.ts runs a command line. */
import { reasonOf, TapirError } from '../base/errors.js';
import { printable, shown } from '../base/printable.js';
import { ownSharp } from '../photos/images/decode/open-sharp.js';
import { warmLane } from '../run/runtime/lanes/lane-start.js';
import { commandOf, inCommandWords, run } from './run.js';
import { EXIT, messageOf } from './terminal/exit-code.js';
import { cutLine, wrapLines } from './terminal/fit-lines.js';
import { onSignal } from './terminal/signal-watch.js';

const SIGNALS: ReadonlyMap<NodeJS.Signals, number> = new Map([
  ['SIGINT', 130],
  ['SIGTERM', 143],
]);

async function main(): Promise<number> {
  ownSharp();
  showWarnings();
  let stopped: number | undefined;
  let isReading = false;
  let isStreaming = false;
  const hearSignals = signalHearer((signal) => {
    stopped = SIGNALS.get(signal);
    // Ends the wait for more input.
    if (isReading) process.stdin.destroy();
  });
  // A reader that goes away (`tapir nodes … | head`) is not a failure.
  const onOutputError = (error: NodeJS.ErrnoException): void => {
    const isGone = error.code === 'EPIPE';
    // A command that streams gets the error from its write, and closes what it has opened.
    if (!isStreaming) {
      if (!isGone) printError(messageOf(unwritableOutput(error)));
      process.exit(isGone ? EXIT.done : EXIT.output);
    }
    if (isGone) stopped ??= EXIT.done;
  };
  process.stdout.on('error', onOutputError);
  const words = process.argv.slice(2);
  // A thread loads onnxruntime while this one loads the command line; both take equally long.
  if (commandOf(words) === 'embed' && !/\bisolation=process\b/.test(words.join(' '))) warmLane();
  try {
    return await run(words, {
      get signal() {
        return hearSignals();
      },
      get stopped() {
        return stopped;
      },
      exitCode: undefined,
      input: () => {
        isReading = true;
        return process.stdin;
      },
      confirm: (question) => confirm(question, hearSignals()),
      out: (text) => void process.stdout.write(fit(text, process.stdout)),
      write: (bytes) => {
        isStreaming = true;
        return writeData(bytes, hearSignals(), onOutputError);
      },
      err: printError,
      rewrite: (text) =>
        void process.stderr.write(`\r\u001b[K${cutLine(shown(text), widthOf(process.stderr) - 1)}`),
      columns: process.stdout.columns || Number(process.env['COLUMNS']) || undefined,
      isTerminal: process.stderr.isTTY === true,
    });
  } finally {
    // A pending read would keep a stopped command alive.
    if (isReading) process.stdin.destroy();
    // So would a reader that stalls. Everything else is closed; output that it has not read is lost.
    if (isStreaming && stopped !== undefined) process.exit(stopped);
  }
}

/** Returns a function that gives the signal of the first SIGINT or SIGTERM. Until its first call, both end the process at once. */
function signalHearer(onStop: (signal: NodeJS.Signals) => void): () => AbortSignal {
  let abort: AbortController | undefined;
  return () => {
    if (abort) return abort.signal;
    const heard = (abort = new AbortController());
    onSignal([...SIGNALS.keys()], (signal) => {
      onStop(signal);
      heard.abort(new Error(`stopped by ${signal}`));
    });
    return heard.signal;
  };
}

/** Shows the package's own warnings as lines of text. Node would add the number of the process and advice for developers. */
function showWarnings(): void {
  const [showAsNode] = process.listeners('warning');
  process.removeAllListeners('warning').on('warning', (warning) => {
    if ('code' in warning && String(warning.code).startsWith('TAPIR_'))
      printError(inCommandWords(`warning: ${warning.message}\n`));
    else showAsNode?.(warning);
  });
}

/** Asks on the terminal. The end of the input is a no. */
async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  const { createInterface } = await import('node:readline');
  printError(`${question} [y/N] `);
  const lines = createInterface({ input: process.stdin, terminal: false });
  try {
    const answer = await new Promise<string>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      lines.once('line', resolve).once('close', () => resolve(''));
    });
    return /^y(?:es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}

function printError(text: string): void {
  process.stderr.write(fit(text, process.stderr));
}

/** Text as a stream shows it: messages hold names from files, and a terminal has a width. */
function fit(text: string, stream: NodeJS.WriteStream): string {
  return wrapLines(printable(text), widthOf(stream));
}

/** A terminal that does not know its width has none, as a pipe. */
function widthOf({ columns }: NodeJS.WriteStream): number {
  return columns || Infinity;
}

/** Resolves when the bytes have been written, and rejects when they cannot be. */
function writeData(
  bytes: Uint8Array,
  signal: AbortSignal,
  onError: (error: NodeJS.ErrnoException) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop);
    process.stdout.write(bytes, (error) => {
      signal.removeEventListener('abort', stop);
      if (!error) return resolve();
      onError(error);
      reject(unwritableOutput(error));
    });
  });
}

function unwritableOutput(error: Error): TapirError<'OUTPUT_UNWRITABLE'> {
  const [path, reason] = ['standard output', reasonOf(error)];
  return new TapirError('OUTPUT_UNWRITABLE', `cannot write to ${path}: ${reason}`, {
    details: { path, reason },
    cause: error,
  });
}

process.exitCode = await main();
