/** A model that is cut down to what its outputs need. */
import type { Options } from '../../../base/checks.js';
import { externalTensors, planOf } from '../../../onnx/graph/rewrite/describe.js';
import { readInt8Facts } from '../../../onnx/graph/rewrite/int8-facts.js';
import type { PrunePlan } from '../../../onnx/graph/rewrite/plan.js';
import { collectChunks } from '../../../onnx/file/emit.js';
import { checkExternalLocations } from '../../../onnx/file/external-data.js';
import type { LoweredPrecision } from '../../runtime/capabilities/capabilities.js';
import { Internals } from '../open/internals.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import type { Parameter } from '../open/named-parameters.js';
import { describeInputs } from '../open/value-info.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import type { LaidOut } from './prepared.js';
import { saveModel } from './save-model.js';
import type { SaveOptions } from '../open/save-whole.js';

/** What the package keeps about a pruned model. */
export interface PrunedState extends LaidOut {
  /** Finds out what the file must state and nobody has told yet. */
  readonly complete?: (state: LaidOut) => Promise<LaidOut>;
  /** Of a model in lower precision: that precision, and the same model in float32. */
  readonly lowered?: {
    readonly precision: LoweredPrecision;
    readonly exact: PrunedModel;
    /** Whether every engine computes its operators: those of a plain QDQ file. */
    readonly isPlain?: true;
  };
}

export const prunedInternals: Internals<PrunedModel, PrunedState> = new Internals(
  'pruned',
  'what pruneModel gives, or the model of an extractor',
);

let createPruned: (state: PrunedState) => PrunedModel;
let complete: (pruned: PrunedModel) => Promise<PrunedState>;

/**
 * A model cut down to what the requested values need. Everything that is kept is copied from the source byte for byte.
 *
 * @remarks No file stays open. `bytes` and `save` read the source again, and fail with `MODEL_CHANGED` if it has changed.
 */
export class PrunedModel {
  /** The model that it was cut from. */
  readonly source: OnnxModel;
  #plan: PrunePlan;
  #written: Promise<PrunedState> | undefined;

  static {
    createPruned = (state) => new PrunedModel(state);
    complete = (pruned) => pruned.#complete();
  }

  private constructor(state: PrunedState) {
    prunedInternals.set(this, state);
    const { folder } = modelInternals.of(state.model);
    checkExternalLocations(externalTensors(state.rewrite), folder);
    this.source = state.model;
    this.#plan = planOf(state.rewrite, state.chunks);
  }

  /**
   * What was kept, dropped and resolved.
   *
   * @remarks Types of outputs that only ONNX Runtime tells (see {@link PruneOptions.fillTypes}) are asked for when `bytes` or `save` is
   * called first. After it, `kept.bytes` counts them.
   */
  get plan(): PrunePlan {
    return this.#plan;
  }

  #complete(): Promise<PrunedState> {
    this.#written ??= this.#askOnce(prunedInternals.of(this));
    return this.#written;
  }

  async #askOnce(state: PrunedState): Promise<PrunedState> {
    if (!state.complete) return state;
    const written = { ...state, ...(await state.complete(state)) };
    this.#plan = planOf(written.rewrite, written.chunks);
    return written;
  }

  /** Those of the source's parameters and buffers that are kept, in execution order: the same objects. */
  namedParameters(): readonly Parameter[] {
    const { cut } = prunedInternals.of(this).rewrite;
    const kept = new Set([...cut.values].map(({ name }) => name));
    return this.source
      .namedParameters()
      .filter(({ initializers }) => initializers.some((name) => kept.has(name)));
  }

  /** The learnable tensors among {@link PrunedModel.namedParameters}. */
  parameters(): readonly Parameter[] {
    return this.namedParameters().filter(({ kind }) => kind === 'parameter');
  }

  /**
   * The pruned model as the bytes of an ONNX file. External weights stay in their files.
   *
   * @returns A new buffer of `plan.kept.bytes` bytes, as the plan says then.
   * @throws {@link TapirError} `MODEL_CHANGED` if the source file has changed since it was opened.
   */
  async bytes(): Promise<Uint8Array> {
    const { chunks } = await this.#complete();
    return modelInternals.of(this.source).withSource((source) => collectChunks(source, chunks));
  }

  /**
   * Writes the pruned model as a plain ONNX file, for any runtime: under a temporary name first, then renamed.
   *
   * @param path - The file to write. It must not be the source, nor a file with its weights; another file that exists is replaced
   * only with `overwrite`.
   * @param given - See {@link SaveOptions}.
   * @throws {@link TapirError} `OUTPUT_EXISTS`; `OUTPUT_UNWRITABLE`; `MODEL_CHANGED`; `EXTERNAL_DATA_ELSEWHERE` if the model has
   * weights in other files and `path` is in another folder than they are; `MODEL_TOO_LARGE` if inlined weights make the file
   * larger than 2 GiB; `EXTERNAL_DATA_UNSAFE`.
   */
  async save(path: string, given: Options<SaveOptions> = {}): Promise<void> {
    await saveModel(await this.#complete(), path, this.plan, given);
  }
}

/** The inputs that a pruned model must be fed. */
export function inputsOf(pruned: PrunedModel): TensorInfo[] {
  return describeInputs(prunedInternals.of(pruned).rewrite);
}

/** The precision that a model has whatever the engine does: that of its rewrite, or of its file; undefined for float32. */
export function precisionOf(pruned: PrunedModel): LoweredPrecision | undefined {
  const { lowered, rewrite } = prunedInternals.of(pruned);
  return lowered?.precision ?? (readInt8Facts(rewrite.cut).isInt8 ? 'int8' : undefined);
}

/** Whether it rounds activations with fixed scales, which make a number of NaN. */
export function hidesNan(pruned: PrunedModel): boolean {
  const known = hiding.get(pruned);
  if (known !== undefined) return known;
  const { lowered, rewrite } = prunedInternals.of(pruned);
  const isHiding = lowered?.isPlain === true || readInt8Facts(rewrite.cut).hidesNan;
  hiding.set(pruned, isHiding);
  return isHiding;
}

/** The answers, because every run asks. */
const hiding = new WeakMap<PrunedModel, boolean>();

/** A pruned model as it is written, with the types that a session must tell. */
export { complete as completeModel, createPruned };
