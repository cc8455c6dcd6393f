/** Copying in turns: completely, in order, and a failed copy does not affect the next one. */
import { describe, expect, it } from 'vitest';
import { copyInTurns, type Copy } from '../../../src/onnx/tensor/copy.js';

/** An array that counts up, and one to copy it to. */
function copyOf(length: number): Copy & Record<'source' | 'target', Float32Array<ArrayBuffer>> {
  const source = Float32Array.from({ length }, (_, i) => i);
  return { source, target: new Float32Array(length), spans: [{ from: 0, to: 0, length }] };
}

describe('copyInTurns', () => {
  it('lets the event loop turn while it copies more than a slice', async () => {
    const copy = copyOf(1_000_000);
    let turns = 0;
    let timer = setImmediate(function again() {
      turns++;
      timer = setImmediate(again);
    });
    await copyInTurns([copy]);
    clearImmediate(timer);
    // Faster than comparing element by element.
    expect(Buffer.compare(Buffer.from(copy.target.buffer), Buffer.from(copy.source.buffer))).toBe(0);
    expect(turns).toBeGreaterThanOrEqual(3);
  });

  it('fails for a transferred array, and copies the next one', async () => {
    const lost = copyOf(1000);
    structuredClone(null, { transfer: [lost.source.buffer] });
    const next = copyOf(1000);
    const [first, second] = await Promise.allSettled([copyInTurns([lost]), copyInTurns([next])]);
    expect(first.status).toBe('rejected');
    expect(second.status).toBe('fulfilled');
    expect(next.target).toEqual(next.source);
  });
});
