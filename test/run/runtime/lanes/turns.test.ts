import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { createTurn, endTurn, takeTurn } from '../../../../src/run/runtime/lanes/turns.js';
import { projectPath } from '../../../support/fixtures.js';

const COMPILED = pathToFileURL(projectPath('build/modules/run/runtime/lanes/turns.js')).href;

describe('turns of threads', () => {
  it('are for one thread, which may end its turn more than once', () => {
    const turn = createTurn();
    takeTurn(turn, 3);
    expect(turn[0]).toBe(3);
    endTurn(turn, 4);
    expect(turn[0]).toBe(3);
    endTurn(turn, 3);
    endTurn(turn, 3);
    takeTurn(turn, 4);
    expect(turn[0]).toBe(4);
  });

  it('come one after the other', async () => {
    const turn = createTurn();
    const count = new Int32Array(new SharedArrayBuffer(4));
    // An increment in two steps, which loses counts where two threads are inside.
    const code = `
      const { parentPort, threadId, workerData: { turn, count, url } } = require('node:worker_threads');
      import(url).then(({ takeTurn, endTurn }) => {
        for (let i = 0; i < 2000; i++) {
          takeTurn(turn, threadId);
          const before = Atomics.load(count, 0);
          for (let pause = 0; pause < 200; pause++) Atomics.load(count, 0);
          Atomics.store(count, 0, before + 1);
          endTurn(turn, threadId);
        }
      });`;
    const workers = [1, 2].map(
      () => new Worker(code, { eval: true, workerData: { turn, count, url: COMPILED } }),
    );
    await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('exit', resolve))));
    expect(count[0]).toBe(4000);
    expect(turn[0]).toBe(0);
  });
});
