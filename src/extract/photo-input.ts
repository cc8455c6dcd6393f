/** The input `photo` of a cut: the transform of its model as nodes. */
import { inputsOf } from '../run/model/prune/pruned-model.js';
import {
  photoInput,
  photoKindOf,
  type PhotoInput,
  type RewriteOptions,
} from '../run/model/prune/rewrite-options.js';
import type { OnnxModel } from '../run/model/open/open-model.js';
import type { ReturnNodes } from '../run/model/open/return-nodes.js';
import { pruneToRun } from '../run/model/oracle/prune-model.js';
import type { ImageType } from '../onnx/tensor/image-feed.js';
import type { Transform } from '../photos/images/transform/transform.js';
import { checkPhotoGraph } from '../photos/graph/photo-graph.js';
import { createPhotoFront } from '../photos/graph/photo-front.js';
import type { TransformRequest } from '../photos/feeds/choose-transform.js';
import { chooseModelTransform } from '../photos/feeds/model-transform.js';
import { planFeeds } from '../photos/feeds/plan-feeds.js';

/**
 * Cuts a model with what it is fed: photos with the nodes of their transform, all else as it was asked for. That cut begins at once, so that
 * the caller's objects are read before the caller goes on.
 *
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for what has no exact form in operators of ONNX; `OPTION_INVALID` for a transform that does not
 * fit the model; those of {@link chooseModelTransform}.
 */
export function cutWithInput<Cut>(
  model: OnnxModel,
  returnNodes: ReturnNodes,
  options: Pick<RewriteOptions, 'input' | 'inputs'>,
  request: TransformRequest,
  cut: (input: RewriteOptions['input']) => Promise<Cut>,
): Promise<Cut> {
  return photoKindOf(options.input) === undefined
    ? cut(options.input)
    : resolvePhotos(model, returnNodes, options, request).then(cut);
}

async function resolvePhotos(
  model: OnnxModel,
  returnNodes: ReturnNodes,
  { input, inputs: fed }: Pick<RewriteOptions, 'input' | 'inputs'>,
  request: TransformRequest,
): Promise<PhotoInput> {
  const isPlain = model.inputs.length === 1 && fed === undefined;
  const inputs = isPlain ? model.inputs : inputsOf(await pruneToRun(model, returnNodes, { inputs: fed }));
  const transform = chooseModelTransform(request, model, 'auto', inputs);
  return frontOf(inputs, transform, photoKindOf(input) === 'photo-batch');
}

function frontOf(inputs: OnnxModel['inputs'], transform: Transform, hasBatch: boolean): PhotoInput {
  checkPhotoGraph(transform);
  const { inputs: fed, isLast } = planFeeds({ inputs }, transform, { takes: 'picture' });
  const input = inputs.find(({ name }) => name === fed[0])!;
  // The plan refuses other types.
  const dtype = input.dtype as ImageType;
  return photoInput(createPhotoFront(transform, { input: input.name, dtype, isLast, hasBatch }));
}
