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
}

/** The decisions of one pruning. */
export interface PrunePlan {
  readonly kept: PartList;
  readonly dropped: PartList;
  /** Nothing, unless options asked for more than a cut; Identity nodes that name outputs are not counted. */
  readonly added: AddedParts;
  /** In request order. */
  readonly resolved: readonly ResolvedRequest[];
  /** What a careful user should know. */
  readonly notes: readonly string[];
}
