/** One writer at a time, and none that is dead holds a folder for ever. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { checkUnlocked, LOCK_FILE, lockFolder } from '../../src/base/folder-lock.js';
import { scratchFolder } from '../support/fixtures.js';

const folder = (): string => mkdtempSync(join(scratchFolder(), 'lock-'));
const holderOf = (at: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(at, LOCK_FILE), 'utf8')) as Record<string, unknown>;
const rewrite = (at: string, change: object): void =>
  writeFileSync(join(at, LOCK_FILE), `${JSON.stringify({ ...holderOf(at), ...change })}\n`);

describe('lockFolder', () => {
  it('is taken once, and again when it is given back', async () => {
    const at = folder();
    const lock = await lockFolder(at);
    expect(holderOf(at)).toMatchObject({ host: hostname(), pid: process.pid });
    await expect(lockFolder(at)).rejects.toMatchObject({
      code: 'OUTPUT_LOCKED',
      details: { host: hostname(), pid: process.pid },
      message: expect.stringMatching(/another run is writing here: process \d+ on .*delete that file/),
    });
    await lock.release();
    expect(readdirSync(at)).toEqual([]);
    await (await lockFolder(at)).release();
  });

  it('goes to one of many who want it at once, also where it is stale', async () => {
    const at = folder();
    await lockFolder(at);
    rewrite(at, { boot: 'an earlier boot' });
    const attempts = await Promise.allSettled(Array.from({ length: 50 }, () => lockFolder(at)));
    expect(attempts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(readdirSync(at)).toEqual([LOCK_FILE]);
  });

  it('is taken over also from one that died while it took over', async () => {
    const at = folder();
    await lockFolder(at);
    rewrite(at, { boot: 'an earlier boot' });
    const stale = readFileSync(join(at, LOCK_FILE));
    const name = `${LOCK_FILE}.claim-${createHash('sha256').update(stale).digest('hex').slice(0, 16)}`;
    writeFileSync(join(at, name), stale);
    const lock = await lockFolder(at);
    expect(readdirSync(at)).toEqual([LOCK_FILE]);
    await lock.release();
  });

  it('of a process that was killed is stale, also if its number lives on', async () => {
    const at = folder();
    await lockFolder(at);
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    await once(child, 'spawn');
    // Its start time is not that of the holder: the number was used again.
    rewrite(at, { pid: child.pid });
    const lock = await lockFolder(at);
    expect(holderOf(at)['pid']).toBe(process.pid);
    rewrite(at, { pid: child.pid, started: null });
    await expect(lockFolder(at)).rejects.toMatchObject({ code: 'OUTPUT_LOCKED' });
    child.kill('SIGKILL');
    await once(child, 'exit');
    await (await lockFolder(at)).release();
    await lock.release();
  });

  it.runIf(process.platform === 'linux')('of a process that has ended unnoticed is stale', async () => {
    const at = folder();
    await lockFolder(at);
    // The shell becomes a sleep that never asks how its child has ended.
    const parent = spawn('sh', ['-c', 'sleep 1 & echo $!; exec sleep 100'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [printed] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(printed.toString());
    const stat = (): string => readFileSync(`/proc/${pid}/stat`, 'utf8');
    while (!stat().includes(') Z ')) await sleep(1);
    rewrite(at, {
      pid,
      started: stat()
        .slice(stat().lastIndexOf(')') + 2)
        .split(' ')[19],
    });
    const lock = await lockFolder(at);
    await lock.release();
    parent.kill('SIGKILL');
  });

  it('of another machine, or one that nobody can read, is respected', async () => {
    const at = folder();
    await lockFolder(at);
    rewrite(at, { host: 'somewhere-else', boot: 'x', pid: 1 });
    await expect(lockFolder(at)).rejects.toMatchObject({
      code: 'OUTPUT_LOCKED',
      message: expect.stringMatching(/process 1 on somewhere-else/),
    });
    writeFileSync(join(at, LOCK_FILE), '');
    await expect(lockFolder(at)).rejects.toMatchObject({ code: 'OUTPUT_LOCKED' });
  });

  it('that another process has taken meanwhile is not given back', async () => {
    const at = folder();
    const lock = await lockFolder(at);
    rewrite(at, { nonce: 'another' });
    await lock.release();
    expect(readdirSync(at)).toEqual([LOCK_FILE]);
  });

  it('clears what killed processes left beside it, and nothing else', async () => {
    const at = folder();
    const lock = await lockFolder(at);
    const alive = readFileSync(join(at, LOCK_FILE), 'utf8');
    const dead = `${JSON.stringify({ ...holderOf(at), boot: 'an earlier boot' })}\n`;
    await lock.release();
    const hourAgo = Date.now() / 1000 - 3700;
    for (const [name, content, isOld] of [
      [`${LOCK_FILE}.${crypto.randomUUID()}`, dead, false],
      [`${LOCK_FILE}.claim-0123456789abcdef`, dead, false],
      [`${LOCK_FILE}.empty-and-old`, '', true],
      [`${LOCK_FILE}.another-hosts-and-old`, alive.replace(hostname(), 'somewhere-else'), true],
      [`${LOCK_FILE}.alive`, alive, false],
      [`${LOCK_FILE}.empty`, '', false],
      ['features', dead, true],
    ] as const) {
      writeFileSync(join(at, name), content);
      if (isOld) utimesSync(join(at, name), hourAgo, hourAgo);
    }
    const next = await lockFolder(at);
    expect(readdirSync(at).toSorted()).toEqual(
      [LOCK_FILE, `${LOCK_FILE}.alive`, `${LOCK_FILE}.empty`, 'features'].toSorted(),
    );
    await next.release();
  });

  it('clears the file of a process that is killed between creating and linking it', async () => {
    const at = folder();
    // The child writes its file and dies before it links it.
    const code = `
      import { writeFileSync } from 'node:fs';
      import { identifyProcess } from ${JSON.stringify(new URL('../../src/base/process-identity.ts', import.meta.url).href)};
      const holder = { ...(await identifyProcess()), nonce: 'n' };
      writeFileSync(${JSON.stringify(join(at, `${LOCK_FILE}.n`))}, JSON.stringify(holder));
      process.kill(process.pid, 'SIGKILL');`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code]);
    const [, signal] = (await once(child, 'exit')) as [null, string];
    expect([signal, readdirSync(at)]).toEqual(['SIGKILL', [`${LOCK_FILE}.n`]]);
    const lock = await lockFolder(at);
    expect(readdirSync(at)).toEqual([LOCK_FILE]);
    await lock.release();
    await checkUnlocked(at);
  });

  it('cannot be taken where nothing can be written', async () => {
    await expect(lockFolder('/proc/none')).rejects.toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
  });
});
