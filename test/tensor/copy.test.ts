/** Copying in turns: whole, in order, and one that fails holds up no other. */
import { describe, expect, it } from 'vitest';
import { copyInTurns, type Copy } from '../../src/tensor/copy.js';

function copyOf(length: number): Copy & { readonly target: Float32Array } {
  const source = Float32Array.from({ length }, (_, i) => i);
  return { source, target: new Float32Array(length), spans: [{ from: 0, to: 0, length }] };
}

describe('copyInTurns', () => {
  it('copies more than a slice, giving the event loop turns', async () => {
    const copy = copyOf(1_000_000);
    let turns = 0;
    const timer = setImmediate(function again() {
      turns++;
      timers.push(setImmediate(again));
    });
    const timers = [timer];
    await copyInTurns([copy]);
    for (const each of timers) clearImmediate(each);
    expect(copy.target).toEqual(copy.source);
    expect(turns).toBeGreaterThanOrEqual(3);
  });

  it('fails for an array that was given away, and for that one alone', async () => {
    const lost = copyOf(1000);
    structuredClone(null, { transfer: [(lost.source as Float32Array).buffer as ArrayBuffer] });
    const next = copyOf(1000);
    const [first, second] = await Promise.allSettled([copyInTurns([lost]), copyInTurns([next])]);
    expect(first.status).toBe('rejected');
    expect(second.status).toBe('fulfilled');
    expect(next.target).toEqual(next.source);
  });
});
