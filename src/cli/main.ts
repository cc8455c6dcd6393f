/** The command `tapir`: signals, streams and exit codes. What the commands do is in program.ts and beside it. */
import { CommanderError } from 'commander';
import { writeErrorFile } from './error-file.js';
import { EXIT, exitCodeOf, messageOf } from './exit-code.js';
import { createProgram } from './program.js';
import type { Terminal } from './terminal.js';

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

async function main(): Promise<number> {
  const abort = new AbortController();
  let stopped: number | undefined;
  for (const [signal, code] of Object.entries(SIGNALS)) {
    process.on(signal, () => {
      // The second time there is no tidy end; the exit guard still waits for onnxruntime.
      if (stopped !== undefined) process.exit(code);
      stopped = code;
      abort.abort(new Error(`stopped by ${signal}`));
    });
  }
  // A reader that goes away (`tapir nodes … | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.internal),
  );
  let code: number | undefined;
  let isReading = false;
  const terminal: Terminal = {
    signal: abort.signal,
    input: () => {
      isReading = true;
      return process.stdin;
    },
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    isTerminal: process.stderr.isTTY === true,
    exitCode: (value) => {
      code = value;
    },
  };
  try {
    const asked = process.argv.slice(2).find((word) => !word.startsWith('-'));
    const program = await createProgram(terminal, asked);
    await program.parseAsync(process.argv);
    // A command that says so itself has ended as it should, a service by a signal.
    return code ?? stopped ?? EXIT.done;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    // Who is stopped because another process has failed is not the cause.
    if (stopped === undefined) writeErrorFile(process.env, error);
    // Commander has printed its own message.
    if (error instanceof CommanderError) return EXIT.usage;
    process.stderr.write(stopped === undefined ? messageOf(error) : 'tapir: stopped\n');
    return stopped ?? exitCodeOf(error);
  } finally {
    // Waiting for more would keep a command that was stopped alive.
    if (isReading) process.stdin.destroy();
  }
}

process.exitCode = await main();
