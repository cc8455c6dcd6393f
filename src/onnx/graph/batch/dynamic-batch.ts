/**
 * Rewrites a graph that was exported for one batch to take any batch. The batch is followed from the inputs through all operators.
 * Sizes that contain it as a number are replaced, and constants that were made for it are repeated. The result is likely, not certain
 * (a batch of 1 looks like any other 1), so compare it with runs of the original graph.
 */
import { tensorType, type Value } from '../graph.js';
import type { NewValue, TensorType } from '../../file/wire/write-model.js';
import { BATCH_NAME, openBatch, type BatchAxis } from './batch-axis.js';
import { BatchEdits } from './batch-edits.js';
import { carryBatch } from './batch-rules.js';
import { BatchRefusal, BatchWalk, type BatchFacts } from './batch-walk.js';
import type { Rewrite } from '../rewrite/rewrite.js';
import { listFixedInputs } from './fixed-batch.js';

export type BatchResult =
  | {
      readonly rewrite: Rewrite;
      /** The batch it was exported for. */
      readonly batch: number;
      /** One line per change. */
      readonly changed: readonly string[];
    }
  /** Why the batch cannot be made dynamic. */
  | { readonly reason: string };

/** Opens the batch of a rewrite that only cuts, or says why it stays fixed. */
export function withDynamicBatch(rewrite: Rewrite, facts: BatchFacts): BatchResult {
  const fixed = listFixedInputs(rewrite);
  const [first] = fixed;
  if (!first) return { reason: 'the batch is dynamic already' };
  const { batch } = first;
  const other = fixed.find((input) => input.batch !== batch);
  if (other) {
    const sizes = `"${first.value.name}" is fed ${batch} rows, "${other.value.name}" ${other.batch}`;
    return { reason: `the inputs have no common batch: ${sizes}` };
  }
  const { cut } = rewrite;
  const edits = new BatchEdits(rewrite, first.value);
  const walk = new BatchWalk(cut, facts, edits, batch);
  for (const { value } of fixed) walk.start(value);
  try {
    for (const node of cut.graph.nodes) if (cut.nodes.has(node)) carryBatch(walk, node);
  } catch (error) {
    if (error instanceof BatchRefusal) return { reason: error.message };
    throw error;
  }
  return { rewrite: restate(edits.rewrite, walk.axes), batch, changed: walk.changed };
}

/** Restates the types of all values that contain the batch. */
function restate(rewrite: Rewrite, axes: ReadonlyMap<Value, BatchAxis>): Rewrite {
  const { cut } = rewrite;
  const restated = new Map(rewrite.restated);
  for (const [value, at] of axes) {
    const { elemType, dims } = restated.get(value) ?? tensorType(value) ?? {};
    if (dims && cut.values.has(value))
      restated.set(value, { elemType: elemType!, dims: openBatch(dims, at) });
  }
  const notes = [...rewrite.notes];
  const outputs = rewrite.outputs.map((output) => {
    const at = axes.get(output.value);
    if (!at) notes.push(`output "${output.key}" does not depend on the batch`);
    else if (at.axis !== 0) notes.push(`output "${output.key}" holds the batch on axis ${at.axis}`);
    else if (at.outer * at.inner !== 1)
      notes.push(`output "${output.key}" has ${at.outer * at.inner} rows per sample`);
    const { elemType, dims } = output.type ?? {};
    const type: TensorType | undefined =
      restated.get(output.value) ??
      (at && dims ? { elemType: elemType!, dims: openBatch(dims, at) } : output.type);
    return type ? { ...output, type } : output;
  });
  const isBatched = (input: NewValue): boolean => axes.has(cut.graph.values.get(input.name)!);
  const inputs = rewrite.inputs.map((input) =>
    isBatched(input) && input.dims ? { ...input, dims: [BATCH_NAME, ...input.dims.slice(1)] } : input,
  );
  return { ...rewrite, restated, outputs, inputs, notes };
}
