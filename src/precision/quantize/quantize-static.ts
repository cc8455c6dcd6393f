/** A rewrite in float32 → the same one with layers in 8 bits and fixed scales, chosen on samples. */
import { TapirError } from '../../base/errors.js';
import { isConstant } from '../../graph/precision/choose-nodes.js';
import { constantTensor } from '../../graph/precision/with-float16.js';
import { nodeMacs } from '../../graph/cost/macs.js';
import type { Graph, Node } from '../../graph/graph.js';
import { opsetOf } from '../../graph/operator-sets.js';
import { findLayers, type Layer, type LayerConstant, type Read } from '../../graph/quantize/layers.js';
import { whyNotLifted } from '../../graph/quantize/lift.js';
import { planReads } from '../../graph/quantize/plan-reads.js';
import { roundBias, roundWeights, type FloatConstant } from '../../graph/quantize/roundings.js';
import { withQdqSwitches, type Unit } from '../../graph/quantize/with-qdq-switches.js';
import { withQdq, type RoundedLayer, type Rounding } from '../../graph/quantize/with-qdq.js';
import { readInt8Facts } from '../../graph/rewrite/int8-facts.js';
import { layOutRewrite, type Naming } from '../../graph/rewrite/lay-out.js';
import { describeNode } from '../../graph/rewrite/prune.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import { readInitializerBytes } from '../../model/open/read-initializer.js';
import { modelInternals, type ModelState } from '../../model/open/model-state.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { SessionHolder } from '../../model/oracle/session-holder.js';
import { sizeWithWeights, type Lowered } from '../lower-rewrite.js';
import { readAttributes, type Attribute } from '../../onnx/scan/attributes.js';
import { WireReader } from '../../onnx/wire/wire.js';
import { elementCount } from '../../tensor/tensor.js';
import { RANGE_RULES, roundingBy, type ActivationRange } from './search/activation-range.js';
import { calibrate, withOutputs, type Calibration } from './search/calibrate.js';
import { isHeldBack, readSamples, type Sample } from './search/photo-rows.js';
import { describeStatic, type StaticReport } from './static-report.js';
import { searchUnits, type Bars } from './search/search-units.js';
import { SwitchBench } from './search/switch-bench.js';

/** What is asked for. */
export interface StaticSetup extends Omit<Bars, 'deadline'> {
  /** Operators, and names of nodes, that stay in float32. */
  readonly keep: ReadonlySet<string>;
  readonly samples: Iterable<unknown> | AsyncIterable<unknown>;
  /** The longest time of the search. */
  readonly seconds: number;
  readonly signal: AbortSignal | undefined;
}

/** A rewrite with fixed scales, with the pieces of its file. */
export interface StaticLowered extends Lowered {
  readonly report: Omit<StaticReport, 'speeds'>;
  /** A sample to measure speeds on. */
  readonly sample: Sample;
}

/**
 * Quantises a rewrite with fixed scales.
 *
 * @throws {@link TapirError} `PRECISION_UNSUPPORTED` if there is nothing to quantise; `PRECISION_TOO_LOW` if no choice of layers passes;
 * `OPTION_INVALID` for samples that do not suffice.
 */
export async function quantizeStatic(
  model: OnnxModel,
  rewrite: Rewrite,
  naming: Naming,
  { keep, samples: given, minCosine, minNeighbours, seconds, signal }: StaticSetup,
): Promise<StaticLowered> {
  const state = modelInternals.of(model);
  const { graph } = rewrite.cut;
  const attributesOf = await readAllAttributes(state, rewrite);
  const lifted = whyNotLifted(rewrite.cut, opsetOf(graph), attributesOf);
  if (lifted !== undefined)
    throw unsupported(`${lifted}; convert it to operator set 13 first (onnx.version_converter)`);
  if (readInt8Facts(rewrite.cut).isQuantised) throw unsupported('it is in 8 bits already');
  const found = findLayers(rewrite, attributesOf);
  const reasons = new Map(found.kept);
  const candidates = found.layers.filter(
    ({ node }) => !(keep.has(node.opType) || keep.has(describeNode(node))),
  );
  for (const { node } of found.layers)
    if (!candidates.some((layer) => layer.node === node)) reasons.set(node, 'you keep it (keep)');
  if (candidates.length === 0) throw unsupported('it has no layers with constant weights in float32');
  const samples = await readSamples(rewrite, given);
  const deadline = Date.now() + seconds * 1000;
  const sessions = new SessionHolder(model);
  try {
    const calibration = await calibrate(
      rewrite,
      samples,
      {
        tensors: new Set([...candidates, ...found.joins.flat()].map(({ tensor }) => tensor)),
        nodes: candidates.map(({ node }) => node),
        isForRanges: (sample) => !isHeldBack(sample),
        signal,
      },
      sessions,
    );
    const costs = new Map(
      candidates.map((layer) => [layer, costOf(graph, layer, calibration, attributesOf)]),
    );
    for (const layer of candidates) {
      const reason = whyKept(layer, calibration);
      if (reason !== undefined) reasons.set(layer.node, reason);
    }
    const { layers, kept } = await readLayers(
      state,
      candidates.filter(({ node }) => !reasons.has(node)),
      calibration.ranges,
    );
    for (const node of kept) reasons.set(node, 'its weights have values that are not finite');
    if (layers.length === 0) throw unsupported('it has no layers that 8 bits help');
    const units = listUnits(layers, found.joins, calibration);
    const tensors = [...new Set(units.flatMap(({ reads }) => reads.map(({ tensor }) => tensor)))];
    const levels = new Map(
      RANGE_RULES.map((rule) => [
        rule,
        tensors.map((tensor) => roundingBy(rule, calibration.ranges.get(tensor)!)),
      ]),
    );
    const switched = withQdqSwitches(rewrite, units, tensors);
    const results = new Map(
      Array.from(switched.places.keys(), (unit) => [unit, writtenName(rewrite, units[unit]!.reads[0]!.node)]),
    );
    const fetches = [...new Set(rewrite.outputs.map(({ tensor }) => tensor))];
    const replica = await sessions.open({
      rewrite: withOutputs(
        switched.rewrite,
        [...results.values()].filter((name) => !fetches.includes(name)),
      ),
      graphOptimizationLevel: 'all',
    });
    const bench = new SwitchBench(replica, switched, units.length, fetches, signal);
    const savings = units.map((unit) => savingOf(unit, costs, calibration));
    const search = await searchUnits(
      { bench, samples, exact: calibration.exact, savings, results, levels },
      { minCosine, minNeighbours, deadline },
    );
    const chosen = [...units.entries()].flatMap(([place, unit]) =>
      search.best?.chosen.has(place) ? [{ ...unit, correction: search.corrections.get(place) }] : [],
    );
    const roundings = new Map(tensors.map((tensor, k) => [tensor, levels.get(search.rule)![k]!]));
    const made = await makeQdq(
      state,
      rewrite,
      chosen,
      roundings,
      await findZeroPads(state, rewrite, attributesOf),
    );
    const isChosen = new Set(made.layers.map(({ layer }) => layer));
    for (const { layer } of layers)
      if (!isChosen.has(layer)) reasons.set(layer.node, 'in 8 bits it loses too much on the photos');
    const { chunks, before } = await state.withSource((source) => ({
      chunks: layOutRewrite(made.rewrite, naming, new WireReader(source)),
      before: layOutRewrite(rewrite, naming, new WireReader(source)),
    }));
    const report = describeStatic({
      rewrite,
      reasons,
      search,
      bars: { minCosine, minNeighbours },
      layers: made.layers,
      rows: samples.map((sample) => sample[0]!.dims[0] ?? 1),
      bytes: [sizeWithWeights(rewrite, before), sizeWithWeights(made.rewrite, chunks)],
    });
    return { rewrite: made.rewrite, chunks, report, sample: samples[0]! };
  } finally {
    await sessions.close();
  }
}

/** The attributes of the nodes whose operators decide. */
function readAllAttributes(
  { withSource }: ModelState,
  { cut }: Rewrite,
): Promise<(node: Node) => ReadonlyMap<string, Attribute>> {
  return withSource((source) => {
    const reader = new WireReader(source);
    const read = new Map([...cut.nodes].map((node) => [node, readAttributes(reader, node.scanned)]));
    return (node) => read.get(node) ?? new Map<string, Attribute>();
  });
}

/** Multiply-accumulates of a layer on the first sample. */
function costOf(
  graph: Graph,
  { node }: Layer,
  { dims }: Calibration,
  attributesOf: (node: Node) => ReadonlyMap<string, Attribute>,
): number {
  const dimsOf = ({
    name,
    initializer,
  }: {
    name: string;
    initializer?: { dims: readonly number[] } | undefined;
  }) => dims.get(name) ?? initializer?.dims;
  return nodeMacs(graph, node, { dimsOf, attributesOf }) ?? 1;
}

/** Reading a float32 element instead of an 8-bit one costs as much as so many multiplications. */
const READ_COST = 30;

function savingOf(unit: Unit, costs: ReadonlyMap<Layer, number>, { dims }: Calibration): number {
  const read = unit.reads.reduce((sum, { tensor }) => sum + elementCount(dims.get(tensor) ?? []), 0);
  return (unit.rounded ? costs.get(unit.rounded.layer)! : 0) + READ_COST * read;
}

function whyKept({ node, tensor }: Layer, { ranges, dims }: Calibration): string | undefined {
  const range = ranges.get(tensor);
  if (!range) return 'its activations are not float32';
  if (range.isBroken) return 'its activations are not finite on a photo';
  const result = dims.get(node.outputs[0]?.name ?? '');
  const isOnePoint = node.opType === 'Conv' && result !== undefined && elementCount(result.slice(2)) === 1;
  return isOnePoint ? 'it computes one point of each channel, as in squeeze and excitation' : undefined;
}

/** Rounds the weights, one layer in float32 at a time. Biases follow when the scales are known. */
async function readLayers(
  state: ModelState,
  candidates: readonly Layer[],
  ranges: ReadonlyMap<string, ActivationRange>,
): Promise<{ readonly layers: readonly RoundedLayer[]; readonly kept: readonly Node[] }> {
  const layers: RoundedLayer[] = [];
  const kept: Node[] = [];
  for (const layer of candidates) {
    const { scale } = roundingBy('least squares', ranges.get(layer.tensor)!);
    // oxlint-disable-next-line no-await-in-loop -- one layer in float32 at a time
    const weights = await readRounded(state, layer, scale);
    if (weights) layers.push({ layer, weights, bias: undefined });
    else kept.push(layer.node);
  }
  return { layers, kept };
}

async function readRounded(
  state: ModelState,
  { weights, bias, axis }: Layer,
  scale: number,
): Promise<RoundedLayer['weights'] | undefined> {
  const added = bias && (await readConstant(state, bias)).data;
  return roundWeights(await readConstant(state, weights), axis, added, scale);
}

/** Reads a constant as its layer reads it. */
async function readConstant(
  state: ModelState,
  { tensor, isTransposed }: LayerConstant,
): Promise<FloatConstant> {
  const { buffer } = await readInitializerBytes(state, tensor);
  const data = new Float32Array(buffer);
  if (!isTransposed) return { data, dims: tensor.dims };
  const [rows, columns] = tensor.dims as [number, number];
  return {
    data: data.map((_, at) => data[(at % rows) * columns + Math.floor(at / rows)]!),
    dims: [columns, rows],
  };
}

/** The name of a node's result in the rewritten graph. */
function writtenName({ patches }: Rewrite, node: Node): string {
  return patches.get(node)?.outputs.get(0) ?? node.outputs[0]!.name;
}

/** Pads with zeros, whatever their sizes. */
async function findZeroPads(
  state: ModelState,
  { cut }: Rewrite,
  attributesOf: (node: Node) => ReadonlyMap<string, Attribute>,
): Promise<ReadonlySet<Node>> {
  const found = new Set<Node>();
  for (const node of cut.nodes) {
    if (node.domain !== '' || node.opType !== 'Pad') continue;
    const attributes = attributesOf(node);
    if ((attributes.get('mode')?.text ?? 'constant') !== 'constant' || attributes.has('value')) continue;
    const filled = node.inputs[2];
    const tensor = filled && isConstant(filled) ? constantTensor(filled) : undefined;
    // oxlint-disable-next-line no-await-in-loop -- a few bytes
    const isZero = tensor ? (await readInitializerBytes(state, tensor)).every((byte) => byte === 0) : !filled;
    if (isZero) found.add(node);
  }
  return found;
}

/** Layers, and the sums of their tensors, in execution order. */
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

/** The QDQ form of a choice. Biases get the scales of their layer's products. */
async function makeQdq(
  state: ModelState,
  rewrite: Rewrite,
  chosen: readonly (Unit & { readonly correction: Float32Array | undefined })[],
  roundings: ReadonlyMap<string, Rounding>,
  zeroPads: ReadonlySet<Node>,
): Promise<{ readonly rewrite: Rewrite; readonly layers: readonly RoundedLayer[] }> {
  const layers: RoundedLayer[] = [];
  for (const { rounded, correction } of chosen) {
    if (!rounded) continue;
    const { layer, weights } = rounded;
    const { scale } = roundings.get(layer.tensor)!;
    // oxlint-disable-next-line no-await-in-loop -- one bias at a time
    const bias = layer.bias && (await readConstant(state, layer.bias)).data;
    const corrected = bias?.map((x, channel) => x - (correction?.[channel] ?? 0));
    layers.push({ layer, weights, bias: corrected && roundBias(corrected, scale, weights.scales) });
  }
  const reads = chosen.flatMap((unit) => unit.reads);
  const read = new Set(reads.map(({ tensor }) => tensor));
  const own = new Map([...roundings].filter(([tensor]) => read.has(tensor)));
  const planned = planReads(rewrite, reads, own, (node) => zeroPads.has(node));
  return { rewrite: withQdq(rewrite, { layers, ...planned }), layers };
}

function unsupported(reason: string): TapirError<'PRECISION_UNSUPPORTED'> {
  return new TapirError(
    'PRECISION_UNSUPPORTED',
    `the model cannot be quantised with fixed scales: ${reason}`,
    { details: { precision: 'int8', engine: 'onnxruntime', reason } },
  );
}
