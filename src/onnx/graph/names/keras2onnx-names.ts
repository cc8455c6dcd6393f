/**
 * Layers of Keras models as keras2onnx writes them: the first node of a layer has the layer's name and reads `NAME/kernel:0`. The nodes
 * behind it that belong to the layer (a bias, an activation) have made-up names: `Add3`, `Relu1`.
 */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node, Value } from '../graph.js';
import { operatorOf } from '../operators/operators.js';
import type { NodeReading } from './operations.js';

/** The layers with weights by name, each with the node that computes its value. Empty for files of other exporters. */
export const layerEnds: (graph: Graph) => ReadonlyMap<string, NodeReading> = oncePer(findEnds);

function findEnds(graph: Graph): ReadonlyMap<string, NodeReading> {
  if (!graph.model.producer.startsWith('keras2onnx')) return new Map();
  const layers = graph.nodes.filter(({ name, inputs }) =>
    inputs.some((input) => name !== '' && input?.initializer && input.name.startsWith(`${name}/`)),
  );
  const biases = new Map<string, Value>();
  for (const value of graph.values.values()) {
    const match = value.initializer && /^(.+)\/bias[^/]*$/.exec(value.name);
    if (match) biases.set(match[1]!, value);
  }
  return new Map(layers.map((node) => [node.name, endOf(graph, node, biases.get(node.name))]));
}

/** Whether a node is an activation of those that Keras has inside a layer. */
function isActivation(node: Node): boolean {
  return node.opType === 'Softmax' || operatorOf(node)?.isActivation === true;
}

function endOf(graph: Graph, layer: Node, bias: Value | undefined): NodeReading {
  let end = layer;
  if (bias && !layer.inputs.includes(bias)) {
    const next = onlyUser(graph, layer);
    if (next?.opType !== 'Add' || !next.inputs.includes(bias))
      return {
        kind: 'unsure',
        why: `the bias of the layer "${layer.name}" is not added behind its product`,
        candidates: [layer, ...bias.uses],
      };
    end = next;
  }
  const activation = onlyUser(graph, end);
  if (!activation || !isActivation(activation)) return { kind: 'node', node: end };
  if (new RegExp(String.raw`^${activation.opType}\d*$`).test(activation.name))
    return { kind: 'node', node: activation };
  if (!activation.name.startsWith(`${layer.name}_`)) return { kind: 'node', node: end };
  return {
    kind: 'unsure',
    why: `the activation behind the layer "${layer.name}" may be inside it, or a layer after it`,
    candidates: [end, activation],
  };
}

/** The node that alone reads what another one computes. */
function onlyUser({ isOutput }: Graph, { outputs: [value] }: Node): Node | undefined {
  return value && value.uses.length === 1 && !isOutput(value) ? value.uses[0] : undefined;
}
