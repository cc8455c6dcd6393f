/** The oracle of a model: answers questions that the file leaves open, by running the model on the CPU. */
import type { Value } from '../../graph/graph.js';
import type { MeasuredTokens } from '../../graph/rewrite/token-grid.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { describeOutput } from '../prune/feature-info.js';
import type { InferredType, ModelAnswers } from '../open/model-answers.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import type { LaidOut } from '../prune/prepare.js';
import { comparePruned, type Comparison, type VerifyReport } from './compare-pruned.js';
import { foldConstants } from './fold-constants.js';
import { inferTypes } from './infer-types.js';
import { measureTokens } from './measure-tokens.js';
import { openBatch } from './open-batch.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { SessionHolder } from './session-holder.js';

/**
 * Answers questions about one model.
 *
 * @remarks Holds at most one session. A question opens it when it needs one; the next question that needs another session
 * replaces it; `close` ends it. Ask one question at a time.
 */
export class ModelOracle implements ModelAnswers {
  readonly #model: OnnxModel;
  readonly #sessions: SessionHolder;

  constructor(model: OnnxModel) {
    this.#model = model;
    this.#sessions = new SessionHolder(model);
  }

  inferTypes(values: readonly Value[], given?: CheckedSizes): Promise<ReadonlyMap<Value, InferredType>> {
    const { graph } = modelInternals.of(this.#model);
    return inferTypes(graph, values, given, this.#sessions);
  }

  /** Describes values: by what the file states, else by what is inferred. */
  async describeValues(
    values: readonly Value[],
    given?: CheckedSizes,
  ): Promise<(value: Value) => TensorInfo> {
    const open = values.filter((value) => {
      const { dtype, dims } = describeOutput(value, undefined);
      return value.producer !== undefined && (dtype === null || dims === null);
    });
    const inferred = await this.inferTypes(open, given);
    return (value) => describeOutput(value, inferred.get(value));
  }

  /** The elements of lists of integers that depend on no input; see {@link foldConstants}. */
  foldConstants(values: readonly Value[]): Promise<ReadonlyMap<Value, readonly number[]>> {
    const { graph } = modelInternals.of(this.#model);
    return foldConstants(graph, values, this.#sessions);
  }

  openBatch(rewrite: Rewrite, given: CheckedSizes): Promise<Rewrite> {
    return openBatch(this.#model, rewrite, given, this.#sessions);
  }

  measureTokens(rewrite: Rewrite, value: Value, given: CheckedSizes): Promise<MeasuredTokens | undefined> {
    return measureTokens(rewrite, value, given, this.#sessions);
  }

  /** Compares a pruned model with the full graph; see {@link verifyModel}. */
  compare(pruned: LaidOut, options: Comparison): Promise<VerifyReport> {
    return comparePruned(pruned, options, this.#sessions);
  }

  /** Ends the session, if one is open. */
  close(): Promise<void> {
    return this.#sessions.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
