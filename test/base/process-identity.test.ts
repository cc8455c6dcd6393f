import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { expect, it } from 'vitest';
import { identifyProcess, isRunning } from '../../src/base/process-identity.js';

it('identifies this process, which runs', async () => {
  const self = await identifyProcess();
  expect(self).toMatchObject({ host: hostname(), pid: process.pid });
  expect(await isRunning(self)).toBe(true);
  expect(await isRunning({ ...self, started: null })).toBe(true);
});

it('tells a process that ended, an earlier boot, and a number that was used again', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  await once(child, 'spawn');
  const self = await identifyProcess();
  const other = { ...self, pid: child.pid!, started: null };
  expect(await isRunning(other)).toBe(true);
  if (self.started !== null) expect(await isRunning({ ...other, started: '1' })).toBe(false);
  if (self.boot !== null) expect(await isRunning({ ...other, boot: 'an earlier one' })).toBe(false);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await isRunning(other)).toBe(false);
  // Nothing is known of other machines.
  expect(await isRunning({ ...other, host: 'somewhere-else' })).toBe(true);
});
