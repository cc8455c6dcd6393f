/**
 * What OpenVINO (2026.4) computes otherwise than ONNX says, without an error, and what it does not end compiling. Such models are refused
 * before a lane opens. Compared with ONNX Runtime, operator by operator.
 */
import type { TapirError } from '../../../base/errors.js';
import { tensorType, type Node, type Value } from '../../../onnx/graph/graph.js';
import { opsetOf } from '../../../onnx/graph/operator-sets.js';
import { readConstants } from '../../../onnx/graph/read-constants.js';
import { describeNode, type Cut } from '../../../onnx/graph/rewrite/prune.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { Attribute } from '../../../onnx/file/scan/attributes.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { cannotRun } from '../../runtime/engines/openvino-failure.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';

type AttributesOf = (node: Node) => ReadonlyMap<string, Attribute>;

/** Says what OpenVINO would do otherwise at a node; undefined if it does nothing else. */
type Rule = (node: Node, attributesOf: AttributesOf, opset: number) => string | undefined;

/** Refuses a model that OpenVINO would compute wrongly. Throws {@link TapirError} `ENGINE_UNSUPPORTED`. */
export function checkOpenVino(model: OnnxModel, { cut }: Rewrite): Promise<void> {
  return modelInternals.of(model).withSource((source) => {
    const { attributesOf } = readConstants(new WireReader(source));
    const opset = opsetOf(cut.graph);
    for (const node of cut.nodes) {
      const differs = node.domain === '' ? RULES[node.opType]?.(node, attributesOf, opset) : undefined;
      const why = differs ?? nesting(node);
      if (why !== undefined) throw unsupported(node, why);
    }
    for (const value of cut.values) {
      const node = findTurned(value, cut, attributesOf);
      if (node) throw unsupported(node, 'would confuse its square weight with the transposed one');
    }
  });
}

function unsupported(node: Node, why: string): TapirError<'ENGINE_UNSUPPORTED'> {
  return cannotRun(`it ${why} (${node.opType} "${describeNode(node)}")`, [node.opType]);
}

const resize: Rule = (node, attributesOf) => {
  const attributes = attributesOf(node);
  if ((attributes.get('keep_aspect_ratio_policy')?.text ?? 'stretch') !== 'stretch')
    return 'ignores keep_aspect_ratio_policy';
  const isSmooth = (attributes.get('mode')?.text ?? 'nearest') !== 'nearest';
  return isSmooth && attributes.get('antialias')?.int === 1 ? 'ignores antialias' : undefined;
};

/** Operator sets 11 and 12 flatten all axes from `axis` on. */
const softmax: Rule = (node, attributesOf, opset) => {
  const [input] = node.inputs;
  const dims = input && tensorType(input)?.dims;
  if (opset < 11 || opset > 12 || !dims) return undefined;
  const axis = attributesOf(node).get('axis')?.int ?? 1;
  const isLast = dims.slice(axis).every((size, i) => i === 0 || size === 1);
  return isLast ? undefined : `takes the softmax along axis ${axis} alone`;
};

/** With `ceil_mode`, ONNX drops a last window that would begin in the padding. */
const maxPool: Rule = (node, attributesOf) => {
  const attributes = attributesOf(node);
  if (attributes.get('ceil_mode')?.int !== 1) return undefined;
  const kernel = attributes.get('kernel_shape')?.ints ?? [];
  const [strides, pads, dilations] = ['strides', 'pads', 'dilations'].map(
    (name) => attributes.get(name)?.ints,
  );
  const mayDrop = kernel.some((size, axis) => {
    const extent = (size - 1) * (dilations?.[axis] ?? 1) + 1;
    return extent < (strides?.[axis] ?? 1) + (pads?.[kernel.length + axis] ?? 0);
  });
  return mayDrop ? 'keeps windows that begin in the padding' : undefined;
};

const convTranspose: Rule = (node, attributesOf) => {
  const attributes = attributesOf(node);
  const isOther =
    (attributes.get('group')?.int ?? 1) > 1 || attributes.get('auto_pad')?.text === 'SAME_UPPER';
  return isOther && attributes.has('output_shape') ? 'pads otherwise for output_shape' : undefined;
};

const RULES: Readonly<Record<string, Rule>> = {
  ConvTranspose: convTranspose,
  MaxPool: maxPool,
  Resize: resize,
  Softmax: softmax,
};

/** Each body inside another doubles the time of compiling: 0.1 s for 12 of them, 13 s for 20. */
const MOST_NESTED = 12;

function nesting({ scanned: { bodies } }: Node): string | undefined {
  let most = 0;
  for (const place of bodies?.tensors.values() ?? []) {
    let depth = 0;
    for (let at = place; at; at = at.parent) depth++;
    most = Math.max(most, depth);
  }
  return most > MOST_NESTED ? `nests ${most} bodies, each of which doubles the time of compiling` : undefined;
}

/** The second of two products that read a square weight, one of them transposed: OpenVINO keeps one packed form for both. */
function findTurned(value: Value, { nodes, graph }: Cut, attributesOf: AttributesOf): Node | undefined {
  const { initializer, producer, uses } = value;
  if (uses.length < 2 || (producer ? nodeRoles(graph).get(producer) !== 'constant' : !initializer))
    return undefined;
  const [height, width] = (initializer?.dims ?? tensorType(value)?.dims ?? []).slice(-2);
  if (height !== width) return undefined;
  const products = listProducts(value, nodes, attributesOf, false);
  return products.find(({ isTurned }) => isTurned !== products[0]!.isTurned)?.node;
}

interface Product {
  readonly node: Node;
  readonly isTurned: boolean;
}

/** The products whose right operand is a value, or its transpose. */
function listProducts(
  value: Value,
  kept: ReadonlySet<Node>,
  attributesOf: AttributesOf,
  isTurned: boolean,
): Product[] {
  return value.uses.flatMap((node): Product[] => {
    const { opType, inputs, outputs, scanned } = node;
    if (!kept.has(node)) return [];
    const { perm = [1, 0] } = scanned;
    const isSwap = perm.at(-1) === perm.length - 2 && perm.at(-2) === perm.length - 1;
    if (opType === 'Transpose' && isSwap && outputs[0])
      return listProducts(outputs[0], kept, attributesOf, !isTurned);
    if (inputs[1] !== value) return [];
    if (opType === 'MatMul') return [{ node, isTurned }];
    const isGemmTurned = opType === 'Gemm' && attributesOf(node).get('transB')?.int === 1;
    return opType === 'Gemm' ? [{ node, isTurned: isTurned !== isGemmTurned }] : [];
  });
}
