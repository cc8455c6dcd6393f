/** What the search switches: layers with rounded weights, sums and pools, with what each saves. */
import type { Node, Value } from '../../../../onnx/graph/graph.js';
import { nodeMacs } from '../../../../onnx/graph/cost/macs.js';
import type { Layer, Read } from '../../graph/quantize/layers.js';
import { foldNorm } from '../../graph/quantize/norms.js';
import { roundWeights, type FloatConstant } from '../../graph/quantize/roundings.js';
import { unscaleWeights } from '../../graph/quantize/smoothing.js';
import type { RoundedLayer, Unit } from '../../graph/quantize/with-qdq.js';
import type { ModelState } from '../../../../run/model/open/model-state.js';
import { elementCount } from '../../../../onnx/tensor/tensor.js';
import { readConstant } from '../read-layers.js';
import { roundingBy } from '../search/activation-range.js';
import type { Calibration } from '../search/calibrate.js';
import { unsupported, type StaticSubject } from './static-subject.js';

/** What the search switches, in execution order. */
export interface StaticUnits {
  readonly units: readonly Unit[];
  /** What each saves. */
  readonly savings: readonly number[];
  /** Why layers stay in float32. */
  readonly reasons: ReadonlyMap<Node, string>;
}

/** Rounds the weights of the layers that photos do not rule out. Throws `PRECISION_UNSUPPORTED` if they rule out all. */
export async function makeUnits(subject: StaticSubject, calibration: Calibration): Promise<StaticUnits> {
  const reasons = new Map(subject.reasons);
  const layers: RoundedLayer[] = [];
  for (const layer of subject.candidates) {
    // oxlint-disable-next-line no-await-in-loop -- one layer in float32 at a time
    const made = whyKept(layer, calibration) ?? (await readRounded(subject.state, layer, calibration));
    if (typeof made === 'string') reasons.set(layer.node, made);
    else layers.push(made);
  }
  if (layers.length === 0) throw unsupported('it has no layers that 8 bits help');
  const units = listUnits(layers, subject.joins, calibration);
  return { units, savings: units.map((unit) => savingOf(unit, subject, calibration)), reasons };
}

function whyKept({ node, tensor, result }: Layer, { ranges, dims }: Calibration): string | undefined {
  const range = ranges.get(tensor);
  if (!range) return 'its activations are not float32';
  if (range.isBroken) return 'its activations are not finite on a photo';
  const sizes = dims.get(result.name);
  const isOnePoint = node.opType === 'Conv' && sizes !== undefined && elementCount(sizes.slice(2)) === 1;
  return isOnePoint ? 'it computes one point of each channel, as in squeeze and excitation' : undefined;
}

async function readRounded(
  state: ModelState,
  layer: Layer,
  { ranges, factors }: Calibration,
): Promise<RoundedLayer | string> {
  const { weights: read, bias } = await readLayer(state, layer);
  const scaled = factors.get(layer.tensor);
  const weights = scaled ? unscaleWeights({ weights: read, axis: layer.axis }, scaled) : read;
  const { scale } = roundingBy('least squares', ranges.get(layer.tensor)!);
  const rounded = roundWeights(weights, layer.axis, bias, scale);
  return rounded ? { layer, weights: rounded, bias } : 'its weights have values that are not finite';
}

/** The weights and the bias of a layer, with its norm in them. */
export async function readLayer(
  state: ModelState,
  { weights, bias, norm, axis }: Layer,
): Promise<{ readonly weights: FloatConstant; readonly bias: Float32Array | undefined }> {
  const own = await readConstant(state, weights);
  const added = bias && (await readConstant(state, bias)).data;
  if (!norm) return { weights: own, bias: added };
  const parameters = await Promise.all(
    norm.constants.map(async (one) => (await readConstant(state, one)).data),
  );
  return foldNorm(own, added, axis, parameters, norm.epsilon);
}

function listUnits(
  layers: readonly RoundedLayer[],
  joins: readonly (readonly Read[])[],
  { ranges }: Calibration,
): Unit[] {
  const isKnown = ({ tensor }: Read): boolean => ranges.get(tensor)?.isBroken === false;
  const units: Unit[] = [
    ...layers.map((rounded) => ({ reads: [rounded.layer], rounded })),
    ...joins.filter((reads) => reads.every(isKnown)).map((reads) => ({ reads, rounded: undefined })),
  ];
  return units.toSorted((a, b) => a.reads[0]!.node.index - b.reads[0]!.node.index);
}

/** Reading a float32 element instead of an 8-bit one costs as much as so many multiplications. */
const READ_COST = 30;

function savingOf(
  { reads, rounded }: Unit,
  { rewrite, attributesOf }: StaticSubject,
  { dims }: Calibration,
): number {
  const read = reads.reduce((sum, { tensor }) => sum + elementCount(dims.get(tensor) ?? []), 0);
  const { node, result } = rounded?.layer ?? {};
  const dimsOf = (value: Value): readonly number[] | undefined =>
    dims.get(value === node?.outputs[0] ? result!.name : value.name) ?? value.initializer?.dims;
  const macs = node ? nodeMacs(rewrite.cut.graph, node, { dimsOf, attributesOf }) : 0;
  return (macs ?? 1) + READ_COST * read;
}
