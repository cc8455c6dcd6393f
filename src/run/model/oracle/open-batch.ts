/** Makes a fixed batch dynamic. The rewritten graph is run and compared; if it is wrong, the old one stays and the plan says why. */
import { isTapirError, reasonOf } from '../../../base/errors.js';
import { withFixedBatch } from '../../../onnx/graph/batch/fixed-batch.js';
import { withDynamicBatch } from '../../../onnx/graph/batch/dynamic-batch.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { runBatch } from '../../runtime/run-batch.js';
import { takeRows } from '../../../onnx/tensor/rows.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { modelInternals } from '../open/model-state.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { describeInputs } from '../open/value-info.js';
import { compareTensors } from '../../../onnx/tensor/compare-tensors.js';
import { measureValues, readFacts } from './measure-values.js';
import { runMadeUp } from './run-made-up.js';
import type { SessionHolder } from './session-holder.js';

/** A larger batch may change the order of sums, and so their rounding. */
const TOLERANCE = 1e-4;
/** How many exported batches run at once. */
const BATCHES = 3;
const SEED = 1;

/** Returns the rewrite with a dynamic batch, if runs prove it right. Its `batch` holds the outcome. */
export async function openBatch(
  rewrite: Rewrite,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<Rewrite> {
  const exported = exportedBatch(describeInputs(rewrite));
  if (exported !== undefined) return openFixed(rewrite, exported, given, sessions);
  const asExported: Rewrite = { ...rewrite, batch: { mode: 'as-exported' } };
  const taken = await takenRows(rewrite, given, sessions);
  if (typeof taken === 'object')
    return {
      ...asExported,
      notes: [...rewrite.notes, `the batch is as the file states it: ${taken.unknown}`],
    };
  if (taken === 'any') return asExported;
  const opened = await openFixed(withFixedBatch(rewrite, 1), 1, given, sessions);
  // Outputs that are not batched prove nothing by themselves.
  return taken === 'one' || opened.batch?.mode === 'dynamic' ? opened : asExported;
}

/**
 * Runs two rows of a graph whose inputs leave the batch open. An exporter may have fixed it inside: then only one row runs, or the
 * outputs have no row per row.
 */
async function takenRows(
  rewrite: Rewrite,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<'any' | 'one' | 'perhaps one' | { readonly unknown: string }> {
  const inputs = describeInputs(rewrite);
  const fetches = rewrite.outputs.map((output) => output.tensor);
  try {
    const replica = await sessions.open({ rewrite });
    const madeUp = { rewrite, given, seed: SEED, rows: 2 };
    const run = await runMadeUp(madeUp, (made) => runBatch(replica, inputs, made, fetches));
    if (run.refused !== undefined) return 'one';
    return run.result.every(({ dims }) => dims[0] === 2) ? 'any' : 'perhaps one';
  } catch (error) {
    if (!isTapirError(error, 'INPUT_MISMATCH') && !isModelFailure(error)) throw error;
    return { unknown: reasonOf(error) };
  }
}

/** Whether ONNX Runtime refuses a graph or its run. */
function isModelFailure(error: unknown): boolean {
  return isTapirError(error, 'SESSION_FAILED') || isTapirError(error, 'RUN_FAILED');
}

/** Opens the batch of a graph whose inputs state it. */
async function openFixed(
  rewrite: Rewrite,
  exported: number,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<Rewrite> {
  const inputs = describeInputs(rewrite);
  const fallBack = (reason: string): Rewrite => ({
    ...rewrite,
    batch: { mode: 'per-sample', exported, reason },
  });
  try {
    const measured = await measureValues(rewrite, given, sessions);
    const result = await modelInternals
      .of(sessions.model)
      .withSource((source) => withDynamicBatch(rewrite, readFacts(new WireReader(source), measured)));
    if ('reason' in result) return fallBack(result.reason);
    // Sizes come from one run. In the graph, they would be wrong for inputs of other sizes.
    if (hasOpenSizes(inputs) && result.changed.length > 0)
      return fallBack('its inputs have other open sizes, which the change would fix');
    const { maxRelative, madeUp } = await compareBatches(rewrite, result.rewrite, given, sessions);
    if (!(maxRelative <= TOLERANCE)) {
      return fallBack(
        `a batch run at once differs from runs as exported, by ${maxRelative.toPrecision(2)} of the largest value`,
      );
    }
    const { rewrite: dynamic, changed } = result;
    const notes = [...dynamic.notes, ...madeUp];
    return { ...dynamic, notes, batch: { mode: 'dynamic', exported, changes: changed, maxRelative } };
  } catch (error) {
    // The exported graph still works if ONNX Runtime does not run the rewritten one.
    if (!isModelFailure(error)) throw error;
    return fallBack(reasonOf(error));
  }
}

/** The batch that a graph was exported for: the first size of an input, if it is a number. */
function exportedBatch(inputs: readonly TensorInfo[]): number | undefined {
  const batches = inputs.flatMap(({ dims }) => (dims && dims.length > 1 ? [dims[0]] : []));
  return batches.find((batch): batch is number => typeof batch === 'number' && batch > 0);
}

function hasOpenSizes(inputs: readonly TensorInfo[]): boolean {
  return inputs.some(({ dims }) => dims?.slice(1).some((size) => typeof size !== 'number') !== false);
}

/**
 * The largest relative difference of any output, over several batches at once and over a part of a batch; and notes about sizes that
 * were made up.
 */
async function compareBatches(
  fixed: Rewrite,
  dynamic: Rewrite,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<{ readonly maxRelative: number; readonly madeUp: readonly string[] }> {
  const inputs = describeInputs(fixed);
  const exported = exportedBatch(inputs)!;
  const replica = await sessions.open({ rewrite: fixed });
  const fetches = fixed.outputs.map((output) => output.tensor);
  const madeUpRun = { rewrite: fixed, given, seed: SEED, rows: exported, runs: BATCHES };
  const run = await runMadeUp(madeUpRun, (made) => runBatch(replica, inputs, made, fetches));
  const { result: expected, feeds, fed } = run;
  const rows = exported * BATCHES;
  if (expected.some((tensor) => tensor.dims[0] !== rows)) return { maxRelative: Infinity, madeUp: [] };
  // A graph that works only for multiples of the exported batch is not dynamic.
  const part = exported > 1 ? 1 : BATCHES - 1;
  const isBatched = inputs.map(({ dims }) => dims !== null && dims.length > 1 && dims[0] === exported);
  const some = feeds.map((feed, i) =>
    isBatched[i] ? { name: feed.name, ...takeRows(feed, 0, part) } : feed,
  );
  const again = await sessions.open({ rewrite: dynamic });
  const names = dynamic.outputs.map((output) => output.tensor);
  const opened = describeInputs(dynamic);
  const whole = await runBatch(again, opened, feeds, names);
  const partial = await runBatch(again, opened, some, names);
  const maxRelative = Math.max(
    ...expected.flatMap((tensor, i) => [
      compareTensors(whole[i]!, tensor).maxRelative,
      compareTensors(partial[i]!, takeRows(tensor, 0, part)).maxRelative,
    ]),
  );
  const madeUp = inputs.flatMap(({ name }, i) =>
    fed[i]!.madeUp.length > 0
      ? [
          `the dynamic batch was verified with "${name}" of dims [${feeds[i]!.dims.join(', ')}]; sizes that the file leaves open were made up`,
        ]
      : [],
  );
  return { maxRelative, madeUp };
}
