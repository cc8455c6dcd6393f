/** The corpus of graphs on a GPU: the values of the CPU within 2e-4 of their range, or a typed error. */
import { describe, it } from 'vitest';
import { checkEntry, runnable } from '../support/engine-corpus.js';
import { gpu, hasGpu, keepGpuWarm } from '../support/gpu.js';
import { someOf } from '../support/rounds.js';

keepGpuWarm();

describe.skipIf(!hasGpu)('the corpus on a GPU', () => {
  const place = { options: { device: gpu }, tolerance: 2e-4, unreadable: {}, chaotic: new Set<string>() };

  it.each(someOf(runnable, 12).map((entry) => [entry.name, entry] as const))('%s', (_, entry) =>
    checkEntry(entry, place),
  );
});
