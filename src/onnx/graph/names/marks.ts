/** What a listing says about a node's value. */
import { floatView } from '../float-view/float-view.js';
import { isConvolution, mayHoldBatchNorm } from './batch-norm.js';
import type { Graph, Node } from '../graph.js';
import { foldedConvolutions } from './keras-names.js';
import { nodeRoles } from '../roles.js';
import { moduleTree } from './module-tree.js';
import { ordinalNames } from './ordinal-names.js';

/**
 * `folded` is a convolution that holds the value of the BatchNorm after it. `quantized` means quantized integers, or numbers computed from
 * them. `constant` depends on no input. `sizes` depends only on the sizes of inputs.
 */
export type Mark = 'folded' | 'quantized' | 'constant' | 'sizes';

const QUANTIZED = /^(QLinear|Quantize|Dequantize|DynamicQuantize|QGemm|QAttention)|(Integer|NBits|Bnb4)$/;
/** The rules that dynamo's optimiser records on a node after folding a BatchNorm into it. */
const FOLDING_RULE = /FuseBatchNorm|BatchNormInto/;

/** The marks of a node. */
export function marksOf(graph: Graph, node: Node): Mark[] {
  const role = nodeRoles(graph).get(node);
  return [
    ...(isFolded(graph, node) ? (['folded'] as const) : []),
    ...(QUANTIZED.test(node.opType) ? (['quantized'] as const) : []),
    ...(role === 'constant' ? (['constant'] as const) : role === 'shape' ? (['sizes'] as const) : []),
  ];
}

function isFolded(graph: Graph, node: Node): boolean {
  const place = moduleTree(graph).places.get(node);
  const isSeen = isConvolution(node) || node.opType.includes('Conv');
  const view = floatView(graph);
  const layer = view.nodeOf(node);
  if (place?.scheme === 'torchscript') return isSeen && layer !== undefined && mayHoldBatchNorm(layer, place);
  if (place) return FOLDING_RULE.test(node.scanned.metadata.get('pkg.onnxscript.rewriter.rule_name') ?? '');
  const names = ordinalNames(view.graph);
  const [value] = node.outputs;
  if (names && value && node.opType === 'Conv')
    return [...names.folded.values()].some((name) => names.values.get(name) === value);
  return foldedConvolutions(graph).has(node);
}
