/** What a prune asks for, and the rewrite that it makes of it, as plain data. */
import type { Value } from '../../../onnx/graph/graph.js';
import type { Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import type { KnownValues } from '../../../onnx/graph/rewrite/requested-parts.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Chunk } from '../../../onnx/file/wire/chunk.js';
import type { OnnxModel } from '../open/open-model.js';
import type { ReturnNode } from '../open/return-nodes.js';
import type { RewriteSetup } from './rewrite-options.js';

/** A checked request. */
export interface RewriteRequest extends RewriteSetup {
  readonly outputs: readonly ReturnNode[];
  /** The names of the outputs in the written file. */
  readonly naming: Naming;
  readonly allowNonTensor: boolean;
  /** State dtype and dims of every output in the written file. */
  readonly fillTypes: boolean;
  /** Sort the nodes of the written graph, give them distinct names, drop unused imports. */
  readonly tidy: boolean;
}

/** A rewrite, and what it was made from. Immutable. */
export interface Prepared extends KnownValues {
  readonly model: OnnxModel;
  readonly request: RewriteRequest;
  readonly rewrite: Rewrite;
  /** What a session must tell before the file is written; nothing else needs it. */
  readonly unstated?: Unstated;
  /** Whether outputs are gradients, which the source does not have. */
  readonly isGradient?: boolean;
}

/** Outputs whose types neither the file nor operators' rules tell. */
export interface Unstated {
  /** Those without a type. */
  readonly open: readonly Value[];
  /** Those whose stated batch may be the one that the exporter traced, because the inputs leave it open. */
  readonly doubtful: readonly Value[];
}

/** A prepared rewrite with the pieces of its file. */
export interface LaidOut extends Prepared {
  readonly chunks: readonly Chunk[];
}
