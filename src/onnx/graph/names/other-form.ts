/** Nodes whose value an optimiser left in another form than torch's: as a matrix of rows, in blocks of channels, without a bias. */
import type { Node } from '../graph.js';
import { placeOf } from '../module-path.js';
import { operatorOf } from '../operators/operators.js';

const MAX_HOPS = 16;
/** Weights that onnxslim computed from a product and the operator after it, such as a layer scale. */
const FUSED_WEIGHT = /_(?:weight|bias)_fused$/;

/** Whether ONNX Runtime computes a node on blocks of channels. Such a node has the name of the last of those that were fused into it. */
export function isBlocked({ domain, opType }: Node): boolean {
  return domain === 'com.microsoft.nchwc' && opType !== 'ReorderOutput';
}

/**
 * Why a node's value has another form than torch's. Optimisers make a Gemm of a product in three dimensions, and compute activations on its
 * rows before they restore the dims. ONNX Runtime keeps blocks from convolution to convolution, also through operators of ONNX.
 *
 * @returns `undefined` if nothing shows another form.
 */
export function otherForm(node: Node): string | undefined {
  const product = node.opType === 'Reshape' ? node.inputs[0]?.producer : node;
  if (product?.inputs.some((input) => input && FUSED_WEIGHT.test(input.name)))
    return 'an optimiser folded what follows into its weights; cut the file from before that';
  const isTorchScript = placeOf(node)?.scheme === 'torchscript';
  if (isTorchScript && isTurned(node))
    return "ONNX Runtime's optimiser moved a permutation from before it to behind it; cut the file from before that";
  let at: Node | undefined = node;
  for (let hops = 0; at && hops < MAX_HOPS; hops++) {
    if (isBlocked(at))
      return "ONNX Runtime's optimiser keeps it in blocks of channels, as one processor reads them; cut the file from before that";
    if (isTorchScript && (isOfRows(at) || entersRows(at)))
      return 'an optimiser computes it as a matrix of rows; cut the file from before that';
    at = sourceOf(at);
  }
  return undefined;
}

/** ONNX Runtime gives the old tensor to the permutation that it puts behind a node, and names the new one after the node. */
function isTurned({ name, outputs }: Node): boolean {
  const result = outputs[0]?.name ?? '';
  // onnxslim names its nodes after their tensors.
  const isOwn = name === '' || /_output_\d+$/.test(name) || !result.startsWith(name);
  return !isOwn && /^(?:_token_\d+)?$/.test(result.slice(name.length));
}

/**
 * Whether an optimiser moved a permutation from behind a node further back, or into the operator after it: the end of a module may have been
 * that permutation.
 */
export function losesTurn({ outputs }: Node): boolean {
  return outputs.some((output) =>
    output?.uses.some(
      (user) => isTurned(user) || (isReorder(user) && user.scanned.layout.get('channels_last') === 1),
    ),
  );
}

/** ONNX Runtime's way into blocks of channels and out of them. */
export function isReorder({ opType }: Node): boolean {
  return opType === 'ReorderInput' || opType === 'ReorderOutput';
}

/** TorchScript's own Gemm nodes have a place. Those that optimisers make have none, or that of the product. */
function isOfRows(node: Node): boolean {
  const place = placeOf(node);
  // Quantizers take such a Gemm apart again.
  if (node.opType !== 'Gemm') return place?.operation.startsWith('MatMulAddFusion') === true;
  return place === undefined || place.operation.startsWith('MatMul');
}

/** A Reshape in front of such a Gemm. */
function entersRows({ opType, outputs }: Node): boolean {
  return opType === 'Reshape' && outputs[0]?.uses.some(isOfRows) === true;
}

/** The node whose form a node keeps. */
function sourceOf(node: Node): Node | undefined {
  const sizes = operatorOf(node)?.sizes;
  const isKept = sizes === 'elementwise' || sizes === 'broadcast' || node.opType === 'Concat';
  if (!isKept) return undefined;
  return node.inputs.find((input) => input?.producer && input.producer.opType !== 'Constant')?.producer;
}

/** A product whose bias a fused operator of ONNX Runtime adds (BiasGelu, SkipLayerNormalization, …). */
export function losesBias(node: Node): boolean {
  if (node.opType !== 'MatMul') return false;
  return node.outputs.some((output) => output?.uses.some((user) => user.domain === 'com.microsoft'));
}
