/** A rewrite → one that also gives what rounding a layer adds to its results on average, for each layer and channel. */
import { editOf, type BackNode, type Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { isOwn, QdqParts, type RoundedLayer } from './with-qdq.js';
import type { Rounding } from './roundings.js';

/** A rewrite with further tensors. */
export interface MeasuredRewrite {
  readonly rewrite: Rewrite;
  /** The names of the tensors `[channels]`, in the order of the layers. */
  readonly errors: readonly string[];
}

/**
 * Lets layers run once more, each with rounded weights on rounded activations. All of them read what float32 gives. The errors lack the
 * biases, because the layers run without them.
 */
export function withMeanErrors(
  rewrite: Rewrite,
  layers: readonly RoundedLayer[],
  roundings: ReadonlyMap<string, Rounding>,
): MeasuredRewrite {
  const parts = new QdqParts(rewrite);
  const { builder, names } = parts;
  const back: BackNode[] = [];
  const errors = layers.map(({ layer, weights }) => {
    const { node, tensor, result } = layer;
    const rounding = roundings.get(tensor)!;
    const data = parts.round(tensor, rounding, node);
    const constant = parts.constant(layer.weights.value, weights, node, isOwn(layer, rounding));
    const { name, opType } = node;
    const [rounded, own] = [names.take('tapir/int8/rounded'), names.take(`tapir/int8/${name}`)];
    const inputs = [data, constant, ...node.inputs.slice(2).map(() => '')];
    back.push({ repeats: node, name: own, opType, inputs, outputs: [rounded] });
    const exact = editOf(rewrite, result.producer!).outputs.get(0) ?? result.name;
    const error = builder.add('Sub', [rounded, exact]);
    // Axis 1 has the channels of convolutions and of Gemm.
    const axes = [...weights.dims.keys()].filter((axis) => axis !== 1);
    const mean = builder.reduce('ReduceMean', error, axes, false);
    back.push(...builder.nodes.splice(0));
    return mean;
  });
  const made = parts.result();
  return { rewrite: { ...made, back: [...made.back, ...back] }, errors };
}
