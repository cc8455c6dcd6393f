/** Moves large channels of activations into the weights that read them. */
import { isProduct, type Layer } from '../../graph/quantize/layers.js';
import { findFactors, type ReadMatrix } from '../../graph/quantize/smoothing.js';
import type { Value } from '../../../../onnx/graph/graph.js';
import type { SessionHolder } from '../../../../run/model/oracle/session-holder.js';
import { calibrate, type Calibration } from '../search/calibrate.js';
import type { Sample } from '../run-samples.js';
import { isHeldBack } from '../search/photo-rows.js';
import type { StaticSubject } from './static-subject.js';
import { readLayer } from './static-units.js';

/** The tensors that only products read in 8 bits, with these products. Pixels are left out: their channels are alike. */
export function findSmoothable({
  rewrite,
  candidates,
  joins,
  moving,
}: StaticSubject): ReadonlyMap<string, readonly Layer[]> {
  const { nodes, values } = rewrite.cut.graph;
  const moved = new Set<Value | undefined>();
  const isFed = (value: Value): boolean => moved.has(value) || (!value.producer && !value.initializer);
  for (const node of nodes)
    if (moving.has(node) && node.reads.some(isFed)) for (const output of node.outputs) moved.add(output);
  const others = new Set(joins.flat().map(({ tensor }) => tensor));
  for (const { node, tensor } of candidates) if (!isProduct(node)) others.add(tensor);
  const isSmoothable = ({ tensor }: Layer): boolean => {
    const value = values.get(tensor);
    return value !== undefined && !others.has(tensor) && !isFed(value);
  };
  const found = new Map<string, Layer[]>();
  for (const layer of candidates.filter(isSmoothable))
    found.set(layer.tensor, [...(found.get(layer.tensor) ?? []), layer]);
  return found;
}

/** The factors of those that gain by them, by the name of the tensor. */
async function findSmoothings(
  subject: StaticSubject,
  { ranges, channels }: Calibration,
): Promise<ReadonlyMap<string, Float32Array>> {
  const found = new Map<string, Float32Array>();
  for (const [tensor, layers] of findSmoothable(subject)) {
    const facts = channels.get(tensor);
    if (!facts || ranges.get(tensor)?.isBroken !== false) continue;
    const matrices: ReadMatrix[] = [];
    for (const layer of layers)
      // oxlint-disable-next-line no-await-in-loop -- the matrices of one tensor at a time
      matrices.push({ weights: (await readLayer(subject.state, layer)).weights, axis: layer.axis });
    const factors = findFactors(facts, matrices);
    if (factors) found.set(tensor, factors);
  }
  return found;
}

/** Ranges with large channels moved into weights; undefined if no product gains by that. */
export async function smoothSubject(
  subject: StaticSubject,
  calibration: Calibration,
  samples: readonly Sample[],
  sessions: SessionHolder,
  signal: AbortSignal | undefined,
): Promise<Calibration | undefined> {
  const factors = await findSmoothings(subject, calibration);
  if (factors.size === 0) return undefined;
  const tensors = new Set(factors.keys());
  const request = { tensors, channels: new Set<string>(), factors, results: [], signal };
  const own = samples.filter((_, sample) => !isHeldBack(sample));
  const { ranges } = await calibrate(subject.rewrite, own, { ...request, isForRanges: () => true }, sessions);
  return { ...calibration, ranges: new Map([...calibration.ranges, ...ranges]), factors };
}
