/** Finds the norm and the epsilon that went into each folded layer: by structure, and by value where the present weights are known. */
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { inverse, type Site } from '../../../onnx/graph/parameters/site.js';
import { channelsOf, type FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import { readNodeMetadata } from '../../../onnx/file/scan/scan-graph.js';
import { ELEMENT_BITS, ELEMENT_TYPE, TORCH_CALL } from '../../../onnx/file/wire/schema.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { toFloat64 } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializer } from '../../../run/model/open/read-initializer.js';
import { matchFitting, matchNorms, normsOf } from './choose-norm.js';
import { foldedKeys, layoutOf, readFolded } from './fold-layer.js';
import { KnownEpsilons } from './known-epsilons.js';
import {
  contains,
  solveEpsilon,
  usualIn,
  type EpsilonRange,
  type FoldedWeights,
  type Rounding,
} from './solve-epsilon.js';
import type { StateValues } from './state-value.js';

export interface FoundNorm {
  /** Undefined if nothing proves which norm it was. */
  readonly norm: string | undefined;
  /** Undefined if nothing proves it. */
  readonly epsilon: number | undefined;
  /** Whether the file has just what the state dict gives. */
  readonly isPresent: boolean;
  /** Paths of norms that fit. */
  readonly candidates: readonly string[];
}

/** What one layer proves by itself. */
interface Evidence {
  readonly norm: string | undefined;
  readonly stated: number | undefined;
  /** The epsilons with which the reference, or else the state dict, gives the file's weights. */
  readonly range: EpsilonRange | undefined;
  readonly candidates: readonly string[];
  /** The candidates that give the file's weights, if nothing else tells the norm. */
  readonly fitting: ReadonlyMap<string, EpsilonRange>;
}

/** An error of a folded weight that is no larger than that of the arithmetic, so that any epsilon of a range is right. */
const NEGLIGIBLE = 1e-6;

export class NormFinder {
  readonly #model: ModelState;
  readonly #state: StateValues;
  readonly #reference: StateValues | undefined;
  readonly #epsilon: number | undefined;

  constructor(
    model: ModelState,
    state: StateValues,
    reference: StateValues | undefined,
    epsilon: number | undefined,
  ) {
    this.#model = model;
    this.#state = state;
    this.#reference = reference;
    this.#epsilon = epsilon;
  }

  async find(layers: readonly FoldedLayer[]): Promise<ReadonlyMap<FoldedLayer, FoundNorm>> {
    const { uses } = findParameters(this.#model.graph);
    const present = new Set(uses.flatMap(({ names }) => names));
    const dict = this.#reference ?? this.#state;
    const candidatesOf = (layer: FoldedLayer): string[] =>
      normsOf(dict, channelsOf(layer)).filter((norm) => !present.has(`${norm}.running_mean`));
    const evidence = new Map<FoldedLayer, Evidence>();
    const matched = matchNorms(layers, dict, candidatesOf);
    for (const layer of layers)
      evidence.set(layer, await this.#examine(layer, matched.get(layer), candidatesOf(layer), dict));
    const settled = new Map(
      [...evidence].flatMap(([layer, { norm }]) => (norm === undefined ? [] : [[layer, norm]])),
    );
    const ranges = (layer: FoldedLayer): Evidence['fitting'] => evidence.get(layer)!.fitting;
    const fitting = matchFitting(layers, dict, (layer) => [...ranges(layer).keys()], settled);
    for (const [layer, norm] of fitting) {
      const one = evidence.get(layer)!;
      evidence.set(layer, { ...one, norm, range: one.range ?? ranges(layer).get(norm) });
    }
    const known = new KnownEpsilons(this.#model, this.#state, [...evidence.values()]);
    const found = new Map<FoldedLayer, FoundNorm>();
    for (const [layer, one] of evidence)
      found.set(layer, {
        norm: one.norm,
        candidates: one.candidates,
        isPresent: this.#reference === undefined && one.range !== undefined,
        epsilon: one.norm === undefined ? undefined : await this.#epsilonOf(one.norm, one, known),
      });
    return found;
  }

  /** What a layer's node states, and its weights prove or leave open. */
  async #examine(
    layer: FoldedLayer,
    likeliest: string | undefined,
    candidates: readonly string[],
    dict: StateValues,
  ): Promise<Evidence> {
    const stated = await this.#statedEpsilon(layer);
    // Only the present weights can contradict the structure.
    const isComparable = this.#reference !== undefined;
    const fitting = new Map<string, EpsilonRange>();
    const evidence = {
      norm: isComparable ? undefined : likeliest,
      stated,
      range: undefined,
      candidates,
      fitting,
    };
    if (!isComparable && stated !== undefined && likeliest !== undefined) return evidence;
    const file = await this.#weightsOf(layer);
    const solve = async (norm: string): Promise<EpsilonRange | undefined> => {
      if (foldedKeys(layer, norm).required.some((key) => !dict.has(key))) return undefined;
      const tensors = await readFolded(layer, norm, dict);
      const range = solveEpsilon(file, tensors, layoutOf(layer), this.#roundingOf(layer));
      return stated === undefined || !range || contains(range, stated) ? range : undefined;
    };
    const range = likeliest === undefined ? undefined : await solve(likeliest);
    if (range || (!isComparable && likeliest !== undefined)) return { ...evidence, norm: likeliest, range };
    for (const norm of candidates) {
      const own = await solve(norm);
      if (own) fitting.set(norm, own);
    }
    return evidence;
  }

  /** The epsilon that is known best: what the file states, what its weights prove, what was given, what similar norms have. */
  async #epsilonOf(
    norm: string,
    { stated, range }: Evidence,
    known: KnownEpsilons,
  ): Promise<number | undefined> {
    if (stated !== undefined) return stated;
    if (!range) return this.#epsilon ?? (await known.find(norm));
    const usual = usualIn(range);
    if (usual.length === 1) return usual[0];
    for (const likely of [this.#epsilon, await known.find(norm)])
      if (likely !== undefined && contains(range, likely)) return likely;
    const best = usual[0] ?? (range.low + range.high) / 2;
    return (await this.#isNegligible(norm, range)) ? best : undefined;
  }

  /** Whether all epsilons of a range give the same weights. */
  async #isNegligible(norm: string, { low, high }: EpsilonRange): Promise<boolean> {
    const value = this.#state.get(`${norm}.running_var`);
    if (!value) return false;
    const least = toFloat64(await value.read()).reduce((a, b) => Math.min(a, b), Infinity);
    return (high - low) / (2 * (least + low)) <= NEGLIGIBLE;
  }

  /** The epsilon that dynamo's exporter wrote down. */
  async #statedEpsilon({ node }: FoldedLayer): Promise<number | undefined> {
    const call = await this.#model.withSource((source) =>
      readNodeMetadata(new WireReader(source), node.scanned.field, TORCH_CALL),
    );
    const stated = /batch_norm.*,\s*([\d.e-]+)\s*(?:,\s*(?:True|False))?\),\s*kwargs/s.exec(call ?? '')?.[1];
    return stated === undefined ? undefined : Number(stated);
  }

  async #weightsOf({ weight, bias, perm }: FoldedLayer): Promise<FoldedWeights> {
    const read = async ({ initializer }: Site, order: readonly number[] | null): Promise<Float64Array> => {
      const tensor = await readInitializer(this.#model, initializer.initializer!);
      return toFloat64(order ? permute(tensor, inverse(order)) : tensor);
    };
    return { weight: await read(weight, perm), bias: bias && (await read(bias, null)) };
  }

  #roundingOf({ weight }: FoldedLayer): Rounding {
    const { elemType } = weight.initializer.initializer!;
    if (ELEMENT_BITS.get(elemType)! >= 32) return { relative: 0, step: 2 ** -126 };
    return elemType === ELEMENT_TYPE.float16
      ? { relative: 2 ** -11, step: 2 ** -24 }
      : { relative: 2 ** -8, step: 2 ** -126 };
  }
}
