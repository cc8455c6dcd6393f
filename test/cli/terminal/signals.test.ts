/** Signals to a command whose main thread does not end what it does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRequire } from '../../../src/base/package.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const scratch = mkdtempSync(join(scratchFolder(), 'signals-'));
const model = join(scratch, 'model.onnx');
writeFileSync(
  model,
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
    outputs: [{ name: 'y', dims: ['n', 3, 1, 1] }],
    nodes: [{ op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] }],
  }),
);
/** Blocks the main thread for ever, a second after its handlers are set. */
const block = join(scratch, 'block.mjs');
writeFileSync(
  block,
  `import { isMainThread } from 'node:worker_threads';
   const block = () => { process.stderr.write('blocked\\n'); for (;;); };
   const look = () => (process.listenerCount('SIGTERM') > 0 ? setTimeout(block, 1000) : setTimeout(look, 20));
   if (isMainThread) look();`,
);
const hasKoffi = (() => {
  try {
    return packageRequire.resolve('koffi') !== '';
  } catch {
    return false;
  }
})();

/** A command that waits for more paths, and blocks. */
async function startDeaf(): Promise<ReturnType<typeof spawn>> {
  const args = [
    'embed',
    '-',
    '--model',
    model,
    '--return',
    'y=v',
    '--transform',
    'Squash224',
    '--out',
    '-',
    '--format',
    'jsonl',
  ];
  const child = spawn(process.execPath, [projectPath('dist/lib/bin.cjs'), ...args], {
    env: { ...process.env, NODE_OPTIONS: `--import=${block}` },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let printed = '';
  for await (const chunk of child.stderr!) {
    printed += String(chunk);
    if (printed.includes('blocked')) break;
  }
  expect(printed).toContain('blocked');
  return child;
}

/** Sends a signal that arrives on its own, and waits for the end. */
async function endOf(child: ReturnType<typeof spawn>): Promise<readonly [NodeJS.Signals | null, number]> {
  const started = performance.now();
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
  return [signal, performance.now() - started];
}

describe.runIf(hasKoffi && process.platform !== 'win32')('a command that is deaf', () => {
  // They wait most of the time.
  it.concurrent.each(['SIGTERM', 'SIGINT'] as const)(
    'ends on the second %s within a second',
    async (name) => {
      const child = await startDeaf();
      child.kill(name);
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(child.exitCode).toBeNull();
      expect(child.signalCode).toBeNull();
      const ended = endOf(child);
      child.kill(name);
      const [signal, ms] = await ended;
      expect(signal).toBe(name);
      // A second, as docs/errors.md says; the tests share their machine.
      expect(ms).toBeLessThan(5000);
    },
  );

  it.concurrent('ends on the first signal within the time of docs/errors.md', async () => {
    const child = await startDeaf();
    const ended = endOf(child);
    child.kill('SIGTERM');
    const [signal, ms] = await ended;
    expect(signal).toBe('SIGTERM');
    expect(ms).toBeGreaterThan(5000);
    expect(ms).toBeLessThan(15_000);
  });
});
