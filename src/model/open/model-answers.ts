/** What pruning asks about a model where the file does not say. An oracle answers (see model/oracle/). */
import type { Value } from '../../graph/graph.js';
import type { MeasuredTokens } from '../../graph/rewrite/token-grid.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import type { CheckedSizes } from './input-sizes.js';
import type { SessionValue } from '../../runtime/lanes/protocol.js';

/** What ONNX Runtime reports about a value. */
export type InferredType = SessionValue & {
  /** The rank, where only a run tells it: onnxruntime reports empty dims for a scalar and for an unknown rank. */
  readonly rank?: number | undefined;
};

export interface ModelAnswers {
  /**
   * The types of values, as ONNX Runtime infers them.
   *
   * @param given - Sizes for made-up inputs, on which the values run if only that tells their rank. Without them,
   * nothing runs.
   */
  inferTypes(values: readonly Value[], given?: CheckedSizes): Promise<ReadonlyMap<Value, InferredType>>;
  /** The rewrite with a batch of any size if runs prove it right. Otherwise the same rewrite; its `batch` says why. */
  openBatch(rewrite: Rewrite, given: CheckedSizes): Promise<Rewrite>;
  /** The tokens `[N, L, C]` of a value whose L the file leaves open; undefined if runs do not tell. */
  measureTokens(rewrite: Rewrite, value: Value, given: CheckedSizes): Promise<MeasuredTokens | undefined>;
}
