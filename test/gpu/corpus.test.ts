/** The corpus of graphs on a GPU: the values of the CPU within 2e-4 of their range, or a typed error. */
import { describe, it } from 'vitest';
import { checkEntry, runnable } from '../support/engine-corpus.js';
import { gpu, hasGpu, keepGpuWarm } from '../support/gpu.js';
import { isRelease, someOf } from '../support/rounds.js';

keepGpuWarm();

/** The C binding, which plugins need, has no lists of tensors. */
const UNREADABLE = gpu.startsWith('plugin:')
  ? { ort_behaviour_optional_out_untyped: 'ENGINE_UNSUPPORTED' }
  : {};

describe.skipIf(!hasGpu)('the corpus on a GPU', () => {
  const place = {
    options: { device: gpu },
    tolerance: 2e-4,
    unreadable: UNREADABLE,
    chaotic: new Set<string>(),
  };

  // Whole networks take minutes on a GPU in software.
  const entries = isRelease
    ? runnable
    : someOf(
        runnable.filter(({ name }) => !name.startsWith('light_')),
        4,
      );
  it.each(entries.map((entry) => [entry.name, entry] as const))('%s', { timeout: 1_200_000 }, (_, entry) =>
    checkEntry(entry, place),
  );
});
