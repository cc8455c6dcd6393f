import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Handover } from '../../../src/datasets/streams/row-pipe.js';

describe('Handover', () => {
  it('keeps a writer waiting until its value is taken', async () => {
    const handover = new Handover<number>();
    const events: string[] = [];
    const writing = (async () => {
      for (const value of [1, 2]) {
        await handover.offer(value);
        events.push(`${value} taken`);
      }
      handover.end();
    })();
    await turn();
    expect(events).toEqual([]);
    for await (const value of handover) events.push(`got ${value}`);
    await writing;
    expect(events.toSorted()).toEqual(['1 taken', '2 taken', 'got 1', 'got 2']);
  });

  it('still gives the last offer after its end', async () => {
    const handover = new Handover<number>();
    void handover.offer(7);
    handover.end();
    const got: number[] = [];
    for await (const value of handover) got.push(value);
    expect(got).toEqual([7]);
  });

  it('lets the writer go on when the reader has stopped', async () => {
    const handover = new Handover<number>();
    const offers = [handover.offer(1)];
    for await (const _ of handover) break;
    offers.push(handover.offer(2));
    await Promise.all(offers);
    const stopped = new Handover<number>();
    const waiting = stopped.offer(1);
    stopped.stop();
    await waiting;
  });
});
