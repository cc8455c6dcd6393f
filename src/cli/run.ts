/** Runs a command line on a terminal. program.ts holds the commands. */
import type { Command } from 'commander';
import { EXIT, exitCodeOf, messageOf, writeErrorFile } from './terminal/exit-code.js';
import type { Terminal } from './terminal/terminal.js';

/** The name of the command in a command line. */
export function commandOf(words: readonly string[]): string | undefined {
  return words.find((word) => !word.startsWith('-'));
}

let speak = (text: string): string => text;

/** A text in the words of the command that runs: with flags in place of options. */
export function inCommandWords(text: string): string {
  return speak(text);
}

/** Runs a command line, given without the program's name. Errors go to the terminal. Gives the exit code. */
export async function run(words: readonly string[], terminal: Terminal): Promise<number> {
  let command: Command | undefined;
  const spoken = Object.create(terminal, {
    err: { value: (text: string) => terminal.err(inCommandWords(text)) },
    exitCode: { value: undefined, writable: true },
  }) as Terminal;
  try {
    const [{ createProgram }, { nameFlags }] = await Promise.all([
      import('./program.js'),
      import('./flags/name-flags.js'),
    ]);
    speak = (text) => nameFlags(text, command);
    const named = words.filter((word) => !word.startsWith('-'));
    const isWhole = /(?:^| )(?:-h|--help) all\b/.test(words.join(' '));
    const program = await createProgram(spoken, named, isWhole);
    program.hook('preAction', (_, running) => void (command = running));
    await program.parseAsync(words, { from: 'user' });
    // A command that sets its own exit code has ended normally, even after a signal: a service does.
    return spoken.exitCode ?? terminal.stopped ?? EXIT.done;
  } catch (error) {
    const { stopped } = terminal;
    const usage = exitCodeOfUsage(error);
    if (usage === 0) return EXIT.done;
    // A process stopped by a signal is not the root cause.
    if (stopped === undefined) writeErrorFile(process.env, error);
    // Commander has printed its own message.
    if (usage !== undefined) return EXIT.usage;
    if (stopped !== EXIT.done) spoken.err(stopped === undefined ? messageOf(error) : 'tapir: stopped\n');
    return stopped ?? exitCodeOf(error);
  }
}

/** The exit code of an error of commander. Its class is not imported, so that this file loads fast. */
function exitCodeOfUsage(error: unknown): unknown {
  const isUsage = error instanceof Error && 'code' in error && String(error.code).startsWith('commander.');
  return isUsage && 'exitCode' in error ? error.exitCode : undefined;
}
