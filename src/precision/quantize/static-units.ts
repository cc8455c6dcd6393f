/** What the search switches: layers with rounded weights, sums and pools, with what each saves. */
import type { Node } from '../../graph/graph.js';
import { nodeMacs } from '../../graph/cost/macs.js';
import type { Layer, Read } from '../../graph/quantize/layers.js';
import { roundWeights } from '../../graph/quantize/roundings.js';
import type { RoundedLayer, Unit } from '../../graph/quantize/with-qdq.js';
import type { ModelState } from '../../model/open/model-state.js';
import { elementCount } from '../../tensor/tensor.js';
import { roundingBy } from './search/activation-range.js';
import type { Calibration } from './search/calibrate.js';
import { readConstant } from './layer-constants.js';
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
    else layers.push({ layer, weights: made, bias: undefined });
  }
  if (layers.length === 0) throw unsupported('it has no layers that 8 bits help');
  const units = listUnits(layers, subject.joins, calibration);
  return { units, savings: units.map((unit) => savingOf(unit, subject, calibration)), reasons };
}

function whyKept({ node, tensor }: Layer, { ranges, dims }: Calibration): string | undefined {
  const range = ranges.get(tensor);
  if (!range) return 'its activations are not float32';
  if (range.isBroken) return 'its activations are not finite on a photo';
  const result = dims.get(node.outputs[0]?.name ?? '');
  const isOnePoint = node.opType === 'Conv' && result !== undefined && elementCount(result.slice(2)) === 1;
  return isOnePoint ? 'it computes one point of each channel, as in squeeze and excitation' : undefined;
}

async function readRounded(
  state: ModelState,
  { weights, bias, axis, tensor }: Layer,
  { ranges }: Calibration,
): Promise<RoundedLayer['weights'] | string> {
  const added = bias && (await readConstant(state, bias)).data;
  const { scale } = roundingBy('least squares', ranges.get(tensor)!);
  const rounded = roundWeights(await readConstant(state, weights), axis, added, scale);
  return rounded ?? 'its weights have values that are not finite';
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
  const dimsOf = (value: Node['outputs'][number] & object): readonly number[] | undefined =>
    dims.get(value.name) ?? value.initializer?.dims;
  const macs = rounded ? nodeMacs(rewrite.cut.graph, rounded.layer.node, { dimsOf, attributesOf }) : 0;
  return (macs ?? 1) + READ_COST * read;
}
