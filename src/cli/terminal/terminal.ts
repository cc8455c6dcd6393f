/** The surroundings of a command. */
export interface Terminal {
  /**
   * Fires when the user stops the command. Until a command reads it for the first time, SIGINT and SIGTERM end the process at once: read it
   * where something begins that must end tidily. The second signal always ends the process at once.
   */
  readonly signal: AbortSignal;
  /** Standard input, opened on the first call. */
  input(): AsyncIterable<Uint8Array>;
  /** Asks a question with yes or no as its answer; false where there is no terminal to answer on. */
  confirm(question: string): Promise<boolean>;
  /** Writes to standard output: results. Characters that act on a terminal are spelled out; see {@link printable}. */
  out(text: string): void;
  /** Writes data to standard output, and waits for a slow reader. Rejects when the reader goes away, or when `signal` fires. */
  write(bytes: Uint8Array): Promise<void>;
  /** Writes to standard error, in the same way: notes and errors. */
  err(text: string): void;
  /** Replaces the last line of standard error, which must be a terminal: progress. */
  rewrite(text: string): void;
  /** Characters per line of standard output; undefined unless it is a terminal, or COLUMNS is set. */
  readonly columns: number | undefined;
  /** Whether standard error is a terminal, where a line can be rewritten. */
  readonly isTerminal: boolean;
  /** The exit code of a command that does not throw; 0 unless set. */
  exitCode: number | undefined;
  /** The exit code of a command that a signal or a reader that went away has stopped. */
  readonly stopped: number | undefined;
}

/** Writes a value as indented JSON to standard output. */
export function printJson(terminal: Terminal, value: unknown): void {
  terminal.out(`${JSON.stringify(value, null, 2)}\n`);
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
