/** A rewritten model as a model. */
import { layOutRewrite, type Naming } from '../../graph/rewrite/lay-out.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import { WireReader } from '../../onnx/wire/wire.js';
import { modelInternals } from '../open/model-state.js';
import { deriveModel, type OnnxModel } from '../open/open-model.js';

/** A rewritten model as a model. */
export async function deriveRewritten(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
): Promise<OnnxModel> {
  const { withSource } = modelInternals.of(model);
  const chunks = await withSource((source) => layOutRewrite(rewrite, naming, new WireReader(source)));
  return deriveModel(model, chunks);
}
