/** What was quantised with fixed scales, and what it costs. */
import { TapirError } from '../../../../base/errors.js';
import type { Node } from '../../../../onnx/graph/graph.js';
import { listFloats } from '../../graph/constants.js';
import type { RoundedLayer } from '../../graph/quantize/with-qdq.js';
import { fetchesOf, type Rewrite } from '../../../../onnx/graph/rewrite/rewrite.js';
import { listKept, type LoweringReport } from '../report.js';
import { isHeldBack } from '../search/photo-rows.js';
import type { Bars, Judgement, SearchResult } from '../search/search-units.js';

/** What quantising with fixed scales did. */
export interface CalibratedReport extends LoweringReport {
  readonly calibration: {
    /** How ranges of activations were chosen; "smoothed" if large channels moved into the weights that read them. */
    readonly rule: string;
    /** The rows (photos) that gave ranges, and those that were held back to judge. */
    readonly samples: number;
    readonly heldBack: number;
    /** The least share of the ten nearest neighbours that an output keeps; null with too few samples. */
    readonly neighbours: number | null;
    /** Whether the time ended before the search: another run may choose otherwise. */
    readonly isCut: boolean;
  };
}

interface StaticFacts {
  readonly rewrite: Rewrite;
  readonly reasons: ReadonlyMap<Node, string>;
  readonly search: SearchResult;
  readonly bars: Bars;
  /** The time of the search. */
  readonly seconds: number;
  readonly layers: readonly RoundedLayer[];
  /** The rows of each sample. */
  readonly rows: readonly number[];
  readonly bytes: Pick<LoweringReport, 'bytesBefore' | 'bytesAfter'>;
}

/** Describes the result. Throws `PRECISION_TOO_LOW` if no choice passes. */
export function describeStatic({
  rewrite,
  reasons,
  search,
  bars,
  seconds,
  layers,
  rows: perSample,
  bytes,
}: StaticFacts): CalibratedReport {
  const { best } = search;
  if (!best) throw tooLow(rewrite, search, bars, seconds);
  const tensors = fetchesOf(rewrite);
  return {
    precision: 'int8',
    tensors: listFloats(rewrite.cut).length,
    converted: new Set(layers.map(({ layer }) => layer.weights.tensor)).size,
    nodes: layers.length,
    kept: listKept(reasons),
    overflows: [],
    underflows: [],
    ...bytes,
    casts: 0,
    measured: rewrite.outputs.map(({ key, tensor }) => {
      const { least, mean, rows } = best.cosines[tensors.indexOf(tensor)]!;
      return { output: key, samples: rows, least, mean };
    }),
    calibration: {
      rule: search.rule,
      samples: sumOf(perSample.filter((_, sample) => !isHeldBack(sample))),
      heldBack: sumOf(perSample.filter((_, sample) => isHeldBack(sample))),
      neighbours: leastNeighbours(best) ?? null,
      isCut: search.isCut,
    },
  };
}

function leastNeighbours({ neighbours }: Judgement): number | undefined {
  return neighbours.reduce(
    (least, kept) => (least === undefined || (kept !== undefined && kept < least) ? kept : least),
    undefined,
  );
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The steps of the search that an error lists. */
const SHOWN = 6;

function tooLow(
  rewrite: Rewrite,
  { curve, isCut, tried }: SearchResult,
  { minCosine, minNeighbours }: Bars,
  seconds: number,
): TapirError<'PRECISION_TOO_LOW'> {
  const all = curve[0]!;
  const worst = all.cosines.reduce((at, { least }, k) => (least < all.cosines[at]!.least ? k : at), 0);
  const tensors = fetchesOf(rewrite);
  const output = rewrite.outputs.find(({ tensor }) => tensor === tensors[worst])!.key;
  const figure = (x: number): string => String(Math.floor(x * 1e4) / 1e4);
  const steps = curve.slice(0, SHOWN).map((one) => {
    const kept = leastNeighbours(one);
    const least = Math.min(...one.cosines.map((cosine) => cosine.least));
    return `${one.chosen.size} of ${all.chosen.size} parts in 8 bits: ${figure(least)}${kept === undefined ? '' : `, ${figure(100 * kept)} % of neighbours`}`;
  });
  const asked = `a least cosine of ${minCosine} (minCosine, --min-cosine) and ${100 * minNeighbours} % of neighbours (minNeighbours, --set minNeighbours=…); measured: ${steps.join('; ')}`;
  const message = isCut
    ? `the ${seconds} seconds of the search ended before it: ${tried} of ${all.chosen.size} parts had been tried. Until then, no choice of layers in 8 bits kept ${asked}. Give the search more time (seconds, --set seconds=…)`
    : `no choice of layers in 8 bits keeps ${asked}; choose lower limits, or more photos (sample, --set sample=…). The alternative is to embed the model as it is with --engine openvino --precision bfloat16 (in code engine: 'openvino', precision: 'bfloat16')`;
  return new TapirError('PRECISION_TOO_LOW', message, {
    details: { output, cosine: all.cosines[worst]!.least, minCosine },
  });
}
