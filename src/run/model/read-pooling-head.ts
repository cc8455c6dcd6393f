/** The weights of a head of global average pooling and one linear layer. */
import { findPoolingHead } from '../../onnx/graph/pooling-head.js';
import { readConstants } from '../../onnx/graph/read-constants.js';
import type { Dim } from '../../onnx/file/wire/schema.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import { modelInternals } from './open/model-state.js';
import type { OnnxModel } from './open/open-model.js';
import { readInitializer } from './open/read-initializer.js';

/** Global average pooling and one linear layer. */
export interface PoolingWeights {
  /** The axis of the layer's channels. */
  readonly channelAxis: number;
  readonly channels: number;
  readonly classes: number;
  /** What the mean of a channel counts in the score of a class. */
  readonly weightOf: (channel: number, index: number) => number;
}

/** An end of the head, as {@link describeFeatures} describes it. */
interface HeadEnd {
  readonly tensor: string;
  readonly dims: readonly Dim[] | null;
}

/** Reads the weights, if it is proven that the scores are the means of the layer's channels under a linear layer of float32. */
export async function readPoolingHead(
  model: OnnxModel,
  layer: HeadEnd,
  scores: HeadEnd,
): Promise<PoolingWeights | undefined> {
  const state = modelInternals.of(model);
  const { values } = state.graph;
  const ends = { layer: values.get(layer.tensor)!, scores: values.get(scores.tensor)! };
  const { dims: layerDims } = layer;
  if (!layerDims) return undefined;
  const head = await state.withSource((source) =>
    findPoolingHead({ ...ends, layerDims }, readConstants(new WireReader(source))),
  );
  if (!head) return undefined;
  const { dtype, dims, data } = await readInitializer(state, head.weight);
  if (dtype !== 'float32') return undefined;
  const [rows, columns] = dims as [number, number];
  const { channelAxis, isTransposed, scale } = head;
  const classes = isTransposed ? rows : columns;
  const stated = scores.dims;
  // What the file leaves open is checked when the logits are read.
  if (stated && (stated.length !== 2 || (typeof stated[1] === 'number' && stated[1] !== classes)))
    return undefined;
  return {
    channelAxis,
    channels: isTransposed ? columns : rows,
    classes,
    weightOf: (channel, index) =>
      scale * data[isTransposed ? index * columns + channel : channel * columns + index]!,
  };
}
