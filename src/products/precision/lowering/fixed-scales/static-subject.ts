/** What of a rewrite may be computed in 8 bits with fixed scales, before any photo is looked at. */
import { TapirError } from '../../../../base/errors.js';
import type { Node } from '../../../../onnx/graph/graph.js';
import { opsetOf } from '../../../../onnx/graph/operator-sets.js';
import { constantTensor, isConstant, type AttributesOf } from '../../graph/constants.js';
import { findLayers, type Layer, type LayerSearch } from '../../graph/quantize/layers.js';
import { whyNotLifted } from '../../graph/quantize/lift.js';
import { movesLevels } from '../../graph/quantize/plan-reads.js';
import { readInt8Facts } from '../../../../onnx/graph/rewrite/int8-facts.js';
import { describeNode } from '../../../../onnx/graph/rewrite/prune.js';
import type { Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { readInitializerBytes } from '../../../../run/model/open/read-initializer.js';
import type { ModelState } from '../../../../run/model/open/model-state.js';
import { readAllAttributes } from '../read-layers.js';

/** What may be quantised. */
export interface StaticSubject {
  readonly state: ModelState;
  readonly rewrite: Rewrite;
  readonly attributesOf: AttributesOf;
  readonly candidates: readonly Layer[];
  readonly joins: LayerSearch['joins'];
  /** Nodes that only move elements, so that 8-bit levels pass through them. */
  readonly moving: ReadonlySet<Node>;
  /** Why nodes with constant weights stay in float32. */
  readonly reasons: ReadonlyMap<Node, string>;
}

/** Finds it. Throws `PRECISION_UNSUPPORTED` if there is nothing to quantise, or the file's operator set is too old. */
export async function readSubject(
  state: ModelState,
  rewrite: Rewrite,
  keep: ReadonlySet<string>,
): Promise<StaticSubject> {
  const attributesOf = await readAllAttributes(state, rewrite);
  const lifted = whyNotLifted(rewrite.cut, opsetOf(rewrite.cut.graph), attributesOf);
  if (lifted !== undefined)
    throw unsupported(`${lifted}; convert it to operator set 13 first (onnx.version_converter)`);
  if (readInt8Facts(rewrite.cut).isQuantised)
    throw unsupported('its weights are in 8 bits already; take the float32 model that it was made of');
  const { layers, joins, kept } = findLayers(rewrite, attributesOf);
  const isNamed = (node: Node): boolean => keep.has(node.opType) || keep.has(describeNode(node));
  const isKept = ({ node, norm }: Layer): boolean =>
    isNamed(node) || (norm !== undefined && isNamed(norm.node));
  const candidates = layers.filter((layer) => !isKept(layer));
  if (candidates.length === 0) throw unsupported('it has no layers with constant weights in float32');
  const reasons = new Map(kept);
  for (const { node } of layers.filter(isKept)) reasons.set(node, 'you keep it (keep)');
  const moving = await findMoving(state, rewrite, attributesOf);
  return { state, rewrite, attributesOf, candidates, joins, moving, reasons };
}

/** Nodes that only move elements. A Pad moves if it pads with zeros, whatever their number. */
async function findMoving(
  state: ModelState,
  { cut }: Rewrite,
  attributesOf: AttributesOf,
): Promise<ReadonlySet<Node>> {
  const found = new Set<Node>();
  for (const node of cut.nodes) {
    if (!movesLevels(node, attributesOf(node))) continue;
    const filled = node.opType === 'Pad' ? node.inputs[2] : undefined;
    const tensor = filled && isConstant(filled) ? constantTensor(filled) : undefined;
    // oxlint-disable-next-line no-await-in-loop -- a few bytes
    const isZero = tensor ? (await readInitializerBytes(state, tensor)).every((byte) => byte === 0) : !filled;
    if (isZero) found.add(node);
  }
  return found;
}

/** The error of a model that 8 bits do not help. */
export function unsupported(reason: string): TapirError<'PRECISION_UNSUPPORTED'> {
  return new TapirError(
    'PRECISION_UNSUPPORTED',
    `the model cannot be quantised with fixed scales: ${reason}`,
    { details: { precision: 'int8', engine: 'onnxruntime', reason } },
  );
}
