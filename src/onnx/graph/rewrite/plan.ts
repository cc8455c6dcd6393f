/** What a pruned model keeps, drops and answers, as plain data. */

/** A part of a model by names, and its size in the file. */
export interface PartList {
  /** Node names; an unnamed node reads `Op → first output`. */
  readonly nodes: readonly string[];
  readonly initializers: readonly string[];
  readonly inputs: readonly string[];
  readonly functions: readonly string[];
  /** Files with external weights, relative to the model's folder. */
  readonly externalFiles: readonly string[];
  /** Bytes of the model file itself. */
  readonly bytes: number;
}

/** What a rewrite adds to a model, by names. */
export interface AddedParts {
  readonly nodes: readonly string[];
  readonly initializers: readonly string[];
  /** Inputs that the source does not have. */
  readonly inputs: readonly string[];
}

/** A request and what it was read as. */
export interface ResolvedRequest {
  /** The name as it was asked for. */
  readonly request: string;
  /** The name of the output. */
  readonly key: string;
  /** The tensor in the source model. */
  readonly tensor: string;
  /** The node that computes it; null for a graph input or initializer. */
  readonly node: string | null;
  /** How the name was read: as tensor, node or module, and which rule applied. */
  readonly why: string;
  /** The parts that are added after the tensor, in order: `pool avg`, `l2Normalize`, …; usually empty. */
  readonly computed: readonly string[];
}

/** The outcome of the option `batch: 'dynamic'`. */
export type BatchPlan =
  /** The graph takes any batch already. */
  | { readonly mode: 'as-exported' }
  /** The graph was rewritten to take any batch, and run to verify it. */
  | {
      readonly mode: 'dynamic';
      /** The batch it was exported for. */
      readonly exported: number;
      /** One line per change. */
      readonly changes: readonly string[];
      /** Largest difference between a batch run at once and run as exported, divided by the largest value. */
      readonly maxRelative: number;
    }
  /** The graph stays as it is: an extractor runs it batch by batch. */
  | { readonly mode: 'per-sample'; readonly exported: number; readonly reason: string };

/** The decisions that one pruning made. */
export interface PrunePlan {
  readonly kept: PartList;
  readonly dropped: PartList;
  /** Empty, unless options ask for more than a cut. Identity nodes that name outputs are not counted. */
  readonly added: AddedParts;
  /** In request order. */
  readonly resolved: readonly ResolvedRequest[];
  /** The outcome of the option `batch: 'dynamic'`; null without it. */
  readonly batch: BatchPlan | null;
  /** Remarks that a careful user should know. */
  readonly notes: readonly string[];
}
