/** A rewritten model as a model. */
import { layOutRewrite, type Naming } from '../../../onnx/graph/rewrite/lay-out.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Chunk } from '../../../onnx/file/wire/chunk.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { modelInternals } from '../open/model-state.js';
import { deriveModel, type OnnxModel } from '../open/open-model.js';

/** A rewritten model as a model. */
export async function deriveRewritten(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
): Promise<OnnxModel> {
  return deriveModel(model, await chunksOf(model, rewrite, naming));
}

/** The pieces of a rewritten model's file; see {@link layOutRewrite}. */
export function chunksOf(model: OnnxModel, rewrite: Rewrite, naming: Naming): Promise<Chunk[]> {
  return modelInternals
    .of(model)
    .withSource((source) => layOutRewrite(rewrite, naming, new WireReader(source)));
}
