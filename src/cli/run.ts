/** Runs a command line on a terminal. program.ts holds the commands. */
import { EXIT, exitCodeOf, messageOf, writeErrorFile } from './terminal/exit-code.js';
import type { Terminal } from './terminal/terminal.js';

/** The name of the command in a command line. */
export function commandOf(words: readonly string[]): string | undefined {
  return words.find((word) => !word.startsWith('-'));
}

/** Runs a command line, given without the program's name. Errors go to the terminal. Gives the exit code. */
export async function run(words: readonly string[], terminal: Terminal): Promise<number> {
  let inWordsOf = (message: string): string => message;
  try {
    const [{ createProgram }, { nameFlags }] = await Promise.all([
      import('./program.js'),
      import('./flags/name-flags.js'),
    ]);
    inWordsOf = (message) => nameFlags(message, undefined);
    const named = words.filter((word) => !word.startsWith('-'));
    const isWhole = /(?:^| )(?:-h|--help) all\b/.test(words.join(' '));
    const program = await createProgram(terminal, named, isWhole);
    program.hook('preAction', (_, command) => void (inWordsOf = (message) => nameFlags(message, command)));
    await program.parseAsync(words, { from: 'user' });
    // A command that sets its own exit code has ended normally, even after a signal: a service does.
    return terminal.exitCode ?? terminal.stopped ?? EXIT.done;
  } catch (error) {
    const { stopped } = terminal;
    const usage = exitCodeOfUsage(error);
    if (usage === 0) return EXIT.done;
    // A process stopped by a signal is not the root cause.
    if (stopped === undefined) writeErrorFile(process.env, error);
    // Commander has printed its own message.
    if (usage !== undefined) return EXIT.usage;
    if (stopped !== EXIT.done)
      terminal.err(stopped === undefined ? inWordsOf(messageOf(error)) : 'tapir: stopped\n');
    return stopped ?? exitCodeOf(error);
  }
}

/** The exit code of an error of commander. Its class is not imported, so that this file loads fast. */
function exitCodeOfUsage(error: unknown): unknown {
  const isUsage = error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');
  return isUsage && 'exitCode' in error ? error.exitCode : undefined;
}
