/** Commands that serve a page. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { projectPath } from './fixtures.js';

/** A served page. */
export interface ServedPage {
  readonly url: string;
  /** Milliseconds from the start of the command. */
  readonly startMs: number;
  /** Stops the command; gives its exit code and what it wrote to standard error. */
  stop(): Promise<{ readonly code: number | null; readonly stderr: string }>;
}

/** Runs a command until its page is served: `explore`, or `report` with `--serve`. */
export async function servePage(command: string, args: readonly string[], cwd: string): Promise<ServedPage> {
  const started = performance.now();
  const flags = ['--no-open', '--json', '--port', '0'];
  const child = spawn(process.execPath, [projectPath('dist/lib/bin.cjs'), command, ...args, ...flags], {
    cwd,
  });
  let [stdout, stderr] = ['', ''];
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = once(child, 'close') as Promise<[number | null]>;
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
      if (stdout.includes('\n')) resolve((JSON.parse(stdout) as { url: string }).url);
    });
    void ended.then(([code]) => reject(new Error(`tapir ${command} ended with ${code}: ${stderr}`)));
  });
  return {
    url,
    startMs: performance.now() - started,
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = await ended;
      return { code, stderr };
    },
  };
}
