/** Runs a script or the command, in a process of its own if need be. */
import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { printable } from '../../src/base/printable.js';
import type { inCommandWords as inWords, run as runLine } from '../../src/cli/run.js';
import { projectPath } from './fixtures.js';

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How to start a process, and when to signal it. */
export interface RunOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** What is on standard input. */
  readonly input?: string | Uint8Array;
  /** More may come on standard input. */
  readonly isInputOpen?: boolean;
  /** Sent as soon as what was printed matches, or a condition holds. */
  readonly signal?: { readonly name: NodeJS.Signals; readonly when: RegExp | (() => boolean) };
}

/** Runs node with arguments. */
export function runNode(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return runCommand(process.execPath, args, options);
}

/** Runs a program with arguments. */
export function runCommand(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...options.env };
    // The test runner's own settings are of no use to the child.
    delete env['NODE_OPTIONS'];
    const child = spawn(program, args, { cwd: options.cwd ?? projectPath('.'), env });
    // A program may end without reading its input.
    child.stdin.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') reject(error);
    });
    child.stdin.write(options.input ?? '');
    if (options.isInputOpen !== true) child.stdin.end();
    let stdout = '';
    let stderr = '';
    let sent = false;
    const look = (): void => {
      const { name, when } = options.signal ?? { when: () => false };
      if (sent || !(typeof when === 'function' ? when() : when.test(stdout + stderr))) return;
      sent = true;
      child.kill(name);
    };
    const timer = setInterval(look, 10);
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearInterval(timer);
      resolve({ code, signal, stdout, stderr });
    });
  });
}

/** Runs a module given as text, with the package importable by name. */
export function runScript(code: string, options: RunOptions = {}): Promise<Ended> {
  return runNode(['--input-type=module', '--eval', code], options);
}

/** Runs the built command: in this process, unless it gets a folder, an environment, a signal or an open input of its own. */
export function runTapir(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const { cwd, env, isInputOpen, signal } = options;
  const isOwn = [cwd, env, isInputOpen, signal].some((value) => value !== undefined);
  if (isOwn) return runTapirProcess(args, options);
  return runTapirBytes(args, options.input).then((ended) => ({ ...ended, stdout: ended.stdout.toString() }));
}

/** Runs the built command in a process of its own. */
export function runTapirProcess(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return runNode([projectPath('dist/lib/bin.cjs'), ...args], options);
}

/** Runs the built command in this process, with the bytes that it writes. */
export async function runTapirBytes(
  args: readonly string[],
  input: string | Uint8Array = '',
): Promise<Omit<Ended, 'stdout'> & { readonly stdout: Buffer }> {
  const { run, inCommandWords } = (await import(projectPath('build/modules/cli/run.js'))) as {
    readonly run: typeof runLine;
    readonly inCommandWords: typeof inWords;
  };
  const written: Uint8Array[] = [];
  let stderr = '';
  const printError = (text: string): void => void (stderr += printable(text));
  const showWarning = (warning: Error): void => {
    if ('code' in warning && String(warning.code).startsWith('TAPIR_'))
      printError(inCommandWords(`warning: ${warning.message}\n`));
  };
  process.on('warning', showWarning);
  try {
    const code = await run(args, {
      signal: new AbortController().signal,
      stopped: undefined,
      exitCode: undefined,
      input: () => Readable.from(input.length === 0 ? [] : [Buffer.from(input)]),
      confirm: () => Promise.resolve(false),
      out: (text) => void written.push(Buffer.from(printable(text))),
      // The caller may use the bytes again.
      write: (bytes) => Promise.resolve(void written.push(Buffer.from(bytes))),
      err: printError,
      rewrite: printError,
      columns: Number(process.env['COLUMNS']) || undefined,
      isTerminal: false,
    });
    // Warnings are shown after the current step.
    await new Promise(setImmediate);
    return { code, signal: null, stdout: Buffer.concat(written), stderr };
  } finally {
    process.off('warning', showWarning);
  }
}

/** What embedding says about a file model.onnx without a configuration. */
export const AUTO_TRANSFORM =
  'warning: ImageNet1K_V1 is assumed: no configuration lies beside "model.onnx". If the model was trained with other pixels, its numbers are wrong. State its own with --transform: torchvision:WEIGHTS or a file\n';
