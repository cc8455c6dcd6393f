/** Samples of a model's inputs, and what its forms give on them. */
import { invalidOption } from '../../../base/checks.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { SessionHolder } from '../../../run/model/oracle/session-holder.js';
import { describeInputs } from '../../../run/model/open/value-info.js';
import { readRunInput } from '../../../extract/replicas/read-run-input.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';

/** The feeds of one run. */
export type Sample = readonly NamedTensor[];

/** Reads all samples into memory. Throws `OPTION_INVALID` with fewer than `least`; `expected` is what the option must be. */
export async function readSamples(
  rewrite: Rewrite,
  given: Iterable<unknown> | AsyncIterable<unknown>,
  least: number,
  expected: string,
): Promise<Sample[]> {
  const inputs = describeInputs(rewrite);
  const samples: Sample[] = [];
  for await (const sample of given) samples.push(readRunInput(inputs, sample));
  if (samples.length < least) throw invalidOption('samples', expected, samples.length);
  return samples;
}

/** Opens a session for the form, and returns the fetched tensors of each sample. */
export async function runSamples(
  sessions: SessionHolder,
  rewrite: Rewrite,
  samples: readonly Sample[],
  fetches: readonly string[],
  signal: AbortSignal | undefined,
): Promise<(readonly NamedTensor[])[]> {
  const replica = await sessions.open({ rewrite, graphOptimizationLevel: 'all' });
  const runs: (readonly NamedTensor[])[] = [];
  for (const sample of samples)
    // oxlint-disable-next-line no-await-in-loop -- a session runs one batch at a time
    runs.push(await replica.run(sample.map(wholePart), fetches, { signal }));
  return runs;
}
