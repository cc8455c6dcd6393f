/** Matching a state dict with a model, and what changes in the file. */
import type { Node, Value } from '../../graph/graph.js';
import { isUnder, splitPath } from '../../graph/names/module-path.js';
import {
  findParameters,
  moduleOf,
  type ParameterUse,
  type UnnamedSite,
} from '../../graph/parameters/find-parameters.js';
import { torchDims, type Site } from '../../graph/parameters/site.js';
import { channelsOf, type FoldedLayer } from '../../graph/parameters/folded-layer.js';
import { isOperation } from '../../graph/parameters/parameter-names.js';
import type { Chunk } from '../../onnx/chunk.js';
import { elementTypeName } from '../../onnx/schema.js';
import { encodeValues, fitsType } from '../encode-values.js';
import type { ModelState } from '../model-state.js';
import type { ParameterOrigin } from '../named-parameters.js';
import { elementCount } from '../../tensor/tensor.js';
import { readInitializerBytes } from '../read-initializer.js';
import { replaceTensors, type NewInput, type SiteEdit } from '../replace-tensors.js';
import { NormFinder } from './find-norm.js';
import { foldLayer, foldedKeys } from './fold-layer.js';
import { adviceFor, ambiguous, notPresent, misfitsError, type Misfits } from './load-errors.js';
import { mapAtOnce } from './map-at-once.js';
import { disproved, matchKeys, type KeyMatch } from './match-keys.js';
import { isConstant, isEqual, type StateValue } from './state-values.js';

/** What {@link loadStateDict} did. */
export interface LoadReport {
  /** Keys that were loaded, in the order of the state dict, and how each lies in the file. */
  readonly entries: readonly { readonly key: string; readonly origin: ParameterOrigin }[];
  /** Parameters of the model that the state dict lacks; they keep their values. Empty if `strict`. */
  readonly missing: readonly string[];
  /** Keys that the model has no parameter for. */
  readonly unexpected: readonly string[];
  /** Keys of the source network that have no tensor in the file: counters, parameters that no output needs. */
  readonly absent: readonly string[];
  /** What was assumed or changed on the way. */
  readonly notes: readonly string[];
}

/** What a state dict is loaded with. */
export interface LoadInput {
  readonly state: ReadonlyMap<string, StateValue>;
  readonly reference: ReadonlyMap<string, StateValue> | undefined;
  readonly epsilon: number | undefined;
  /** Receives what was assumed. */
  readonly notes: string[];
}

/** A place in the graph that takes the values of a key. */
interface KeyedSite {
  readonly site: Site;
  readonly key: string;
  readonly perm: readonly number[] | null;
}

/** Tensors that are read at a time: their file then stays open. */
const READS_AT_ONCE = 8;

/** One call of {@link loadStateDict}. */
export class Loading {
  readonly #model: ModelState;
  readonly #state: ReadonlyMap<string, StateValue>;
  readonly #reference: ReadonlyMap<string, StateValue> | undefined;
  readonly #epsilon: number | undefined;
  readonly #notes: string[];
  readonly #origins = new Map<string, ParameterOrigin>();
  readonly #edits: SiteEdit[] = [];
  readonly #inputs: NewInput[] = [];
  readonly #misfits: { [Kind in keyof Misfits]: Misfits[Kind][number][] } = {
    missing: [],
    unexpected: [],
    misshapen: [],
    derived: [],
  };
  readonly #absent: string[] = [];
  readonly #droppedBiases: { readonly node: Node; readonly key: string; readonly elemType: number }[] = [];
  readonly #reshaped: { readonly site: Site; readonly key: string }[] = [];
  /** Keys of layers that cannot be folded, as others are missing. */
  readonly #unused = new Set<string>();

  constructor(model: ModelState, { state, reference, epsilon, notes }: LoadInput) {
    this.#model = model;
    this.#state = state;
    this.#reference = reference;
    this.#epsilon = epsilon;
    this.#notes = notes;
  }

  async run(strict: boolean): Promise<{ readonly chunks: Chunk[] | undefined; readonly report: LoadReport }> {
    const { uses, folded, unnamed } = findParameters(this.#model.graph);
    const matches = await matchKeys(this.#model, uses, this.#state, this.#reference);
    this.#misfits.missing.push(...matches.missing);
    for (const match of matches.found) this.#checkUse(match);
    const layers = await this.#matchLayers(folded);
    this.#findDroppedBiases(matches.found);
    // Constant nodes hold what the code states. What an exporter computes of parameters becomes an initializer.
    const computed = unnamed.filter(({ initializer }) => !initializer.producer);
    await this.#sortLeftovers([...computed, ...matches.unexplained.map(unnamedSite)], matches.found);
    const { missing, unexpected, misshapen, derived } = this.#misfits;
    const isRefused = strict && missing.length + unexpected.length > 0;
    if (isRefused || misshapen.length + derived.length > 0 || this.#origins.size === 0)
      throw misfitsError('the model', this.#misfits, adviceFor(this.#misfits, this.#state.size));
    const wrong = this.#reference && (await disproved(this.#model, matches.found, this.#reference));
    if (wrong) throw notPresent(wrong.key);
    // Only now: nothing is read of a state dict that does not fit.
    const places = matches.found.map(({ use, key }) => ({ site: use.site, key, perm: use.perm }));
    places.push(...this.#reshaped.map(({ site, key }) => ({ site, key, perm: null })));
    this.#edits.push(...(await mapAtOnce(places, READS_AT_ONCE, (place) => this.#edit(place))));
    for (const { layer, norm, epsilon } of layers) await this.#fold(layer, norm, epsilon);
    for (const { node, key, elemType } of this.#droppedBiases) {
      const tensor = await this.#state.get(key)!.read();
      this.#addBias(node, key, elemType, encodeValues(tensor, elemType, null), tensor.dims);
    }
    const chunks = await replaceTensors(this.#model, this.#edits, this.#inputs);
    const entries = [...this.#state.keys()].flatMap((key) => {
      const origin = this.#origins.get(key);
      return origin ? [{ key, origin }] : [];
    });
    return {
      chunks,
      report: { entries, missing, unexpected, absent: this.#absent, notes: this.#notes },
    };
  }

  #checkUse({ use, key }: KeyMatch): void {
    const { initializer } = use.site;
    this.#check(key, torchDims(initializer, use.perm), initializer.initializer!.elemType);
    const before = this.#origins.get(key);
    const origin: ParameterOrigin = use.perm ? { kind: 'transposed', perm: use.perm } : { kind: 'exact' };
    const isSame = before === undefined || JSON.stringify(before) === JSON.stringify(origin);
    this.#origins.set(key, isSame ? origin : { kind: 'several' });
  }

  #check(key: string, dims: readonly number[], elemType: number): void {
    const value = this.#state.get(key)!;
    const [expected, actual] = [`[${dims.join(', ')}]`, `[${value.dims.join(', ')}]`];
    if (!fitsType(value.dtype, elemType))
      this.#misfits.misshapen.push({ key, expected: elementTypeName(elemType) ?? '?', actual: value.dtype });
    else if (expected !== actual) this.#misfits.misshapen.push({ key, expected, actual });
  }

  /** Finds the norm of each folded layer whose tensors are there. */
  async #matchLayers(
    folded: readonly FoldedLayer[],
  ): Promise<{ readonly layer: FoldedLayer; readonly norm: string; readonly epsilon: number }[]> {
    const given = folded.filter(({ layer }) => {
      const isGiven = this.#state.has(`${layer}.weight`);
      if (!isGiven) this.#misfits.missing.push(`${layer}.weight`);
      return isGiven;
    });
    const finder = new NormFinder(this.#model, this.#state, this.#reference, this.#epsilon);
    const found = await finder.find(given);
    const layers = [];
    for (const layer of given) {
      const { norm, epsilon, candidates } = found.get(layer)!;
      if (norm === undefined) throw ambiguous(`${layer.layer}.weight`, candidates);
      const keys = foldedKeys(layer, norm);
      const { elemType } = layer.weight.initializer.initializer!;
      const missing = keys.required.filter((key) => !this.#state.has(key));
      this.#misfits.missing.push(...missing);
      if (missing.length > 0) {
        for (const key of [...keys.required, ...keys.optional]) this.#unused.add(key);
        this.#notes.push(`${layer.layer} keeps its weights, as ${missing.join(', ')} is missing`);
        continue;
      }
      this.#check(`${layer.layer}.weight`, torchDims(layer.weight.initializer, layer.perm), elemType);
      const channels = channelsOf(layer);
      const all = [...keys.required, ...keys.optional].filter((key) => this.#state.has(key));
      for (const key of all) if (key !== `${layer.layer}.weight`) this.#check(key, [channels], elemType);
      const origin: ParameterOrigin = { kind: 'folded', layer: layer.layer, norm, axis: layer.axis };
      for (const key of all) this.#origins.set(key, origin);
      layers.push({ layer, norm, epsilon });
    }
    const isUnknown = this.#reference === undefined && this.#epsilon === undefined;
    if (isUnknown && layers.some(({ layer }) => !layer.isProven))
      this.#notes.push(
        'folded norms are taken to have epsilon 1e-5, torch’s default; if this network has another, state it (epsilon), or pass the present weights as reference',
      );
    return layers;
  }

  /** Finds biases that the exporter dropped: the state dict has them, and the layer has no input for them. */
  #findDroppedBiases(matches: readonly KeyMatch[]): void {
    for (const { use, key } of matches) {
      const { node } = use;
      const bias = key.replace(/weight$/, 'bias');
      const isLayer = ['Conv', 'ConvTranspose', 'Gemm'].includes(node.opType);
      if (!isLayer || bias === key || node.inputs[2] || !this.#state.has(bias) || this.#origins.has(bias))
        continue;
      const { elemType } = use.site.initializer.initializer!;
      this.#check(bias, this.#state.get(bias)!.dims, elemType);
      this.#origins.set(bias, { kind: 'exact' });
      this.#droppedBiases.push({ node, key: bias, elemType });
    }
  }

  /** Gives a layer a bias, unless it is zero still. */
  #addBias(node: Node, name: string, elemType: number, bytes: Uint8Array, dims: readonly number[]): void {
    if (bytes.some((byte) => byte !== 0)) this.#inputs.push({ node, slot: 2, name, elemType, dims, bytes });
  }

  /** Tells keys that have no tensor in the file from keys that the network does not have. */
  async #sortLeftovers(unnamed: readonly UnnamedSite[], matches: readonly KeyMatch[]): Promise<void> {
    const floats: string[] = [];
    for (const [key, { dtype }] of this.#state) {
      if (this.#origins.has(key) || this.#unused.has(key)) continue;
      // Counters and indices are not weights, and exporters keep none of them.
      (isFloat(dtype) ? floats : this.#absent).push(key);
    }
    for (const key of floats) {
      const isKnown = this.#reference?.has(key) === true;
      const near = unnamed.filter((site) => isNear(site, key));
      if (isKnown && (await this.#findByValue(key, near))) continue;
      const { dims } = this.#state.get(key)!;
      const isDerived =
        isKnown && near.some(({ initializer }) => elementCount(initializer.initializer!.dims) > 1);
      if (isDerived || unnamed.some(({ initializer }) => isResult(initializer, dims)))
        this.#misfits.derived.push(key);
    }
    if (this.#misfits.derived.length > 0) return;
    for (const key of floats) {
      if (this.#origins.has(key)) continue; // Found by value.
      const merged = await this.#mergedWith(key, matches);
      if (merged) throw ambiguous(key, sitesOf(merged, matches));
      if (this.#origins.has(key)) continue; // Equal to another.
      if (this.#reference?.has(key)) this.#absent.push(key);
      else this.#misfits.unexpected.push(key);
    }
  }

  /** Finds the tensors that hold the reference's values of a key, with other dims: a parameter that the exporter reshaped. */
  async #findByValue(key: string, sites: readonly UnnamedSite[]): Promise<boolean> {
    const value = this.#reference!.get(key)!;
    const fitting = sites.filter(
      ({ initializer }) => elementCount(initializer.initializer!.dims) === elementCount(value.dims),
    );
    if (fitting.length === 0) return false;
    const before = await value.read();
    const holding: UnnamedSite[] = [];
    for (const site of fitting) {
      const tensor = site.initializer.initializer!;
      const now = await readInitializerBytes(this.#model, tensor);
      if (
        fitsType(value.dtype, tensor.elemType) &&
        Buffer.compare(now, encodeValues(before, tensor.elemType, null)) === 0
      )
        holding.push(site);
    }
    if (new Set(holding.map(({ initializer }) => initializer)).size !== 1) return false;
    for (const site of holding) this.#reshaped.push({ site, key });
    this.#check(key, value.dims, holding[0]!.initializer.initializer!.elemType);
    this.#origins.set(key, { kind: 'reshaped' });
    return true;
  }

  /**
   * The match of another key whose initializer may hold this one, too: equal parameters were merged, and nothing tells apart where each
   * is read. If its values are still those of the other, it is loaded with it.
   */
  async #mergedWith(key: string, matches: readonly KeyMatch[]): Promise<KeyMatch | undefined> {
    const { dims } = this.#state.get(key)!;
    for (const match of matches) {
      const { initializer } = match.use.site;
      if (match.key === key || String(initializer.initializer!.dims) !== String(dims)) continue;
      const isEqualNow = await isEqual(this.#state.get(key)!, this.#state.get(match.key)!);
      if (
        isEqualNow ? !(await isConstant(this.#state.get(key)!)) : await this.#wasEqual(key, match, matches)
      ) {
        if (!isEqualNow) return match;
        this.#origins.set(key, this.#origins.get(match.key)!);
        return undefined;
      }
    }
    return undefined;
  }

  /** Whether a key had the values of another one when the model was exported: as the reference says, or as its name suggests. */
  async #wasEqual(key: string, match: KeyMatch, matches: readonly KeyMatch[]): Promise<boolean> {
    const { initializer } = match.use.site;
    const ofInitializer = matches.filter(({ use }) => use.site.initializer === initializer);
    const isShared = ofInitializer.length > 1 && ofInitializer.every((other) => other.key === match.key);
    const before = this.#reference?.get(key);
    const other = this.#reference?.get(match.key);
    if (this.#reference)
      return before && other
        ? (await isEqual(before, other)) && (isShared || !(await isConstant(before)))
        : false;
    return isShared && splitPath(key)[0] === splitPath(match.key)[0];
  }

  async #edit({ site, key, perm }: KeyedSite): Promise<SiteEdit> {
    const { elemType } = site.initializer.initializer!;
    const bytes = encodeValues(await this.#state.get(key)!.read(), elemType, perm);
    return { site, name: key, bytes };
  }

  async #fold(layer: FoldedLayer, norm: string, epsilon: number): Promise<void> {
    const made = await foldLayer(layer, norm, this.#state, epsilon);
    const { elemType } = layer.weight.initializer.initializer!;
    const weight = encodeValues(made.weight, elemType, layer.perm);
    const bias = encodeValues(made.bias, elemType, null);
    const name = `${layer.layer}.weight`;
    this.#edits.push({ site: layer.weight, name, bytes: weight });
    if (layer.bias) this.#edits.push({ site: layer.bias, name: `${name}_bias`, bytes: bias });
    else this.#addBias(layer.node, `${name}_bias`, elemType, bias, made.bias.dims);
  }
}

function isFloat(dtype: string): boolean {
  return dtype.startsWith('float') || dtype === 'bfloat16';
}

/** Whether an initializer is what an operation gave, by its name, and may have been computed of a parameter of these dims. */
function isResult({ name, initializer }: Value, dims: readonly number[]): boolean {
  return isOperation(name) && String(initializer!.dims) === String(dims);
}

/** Whether a parameter belongs to the module that reads a tensor. The model's own module has the parameters without a dot. */
function isNear({ module }: UnnamedSite, key: string): boolean {
  return module === '' ? !key.includes('.') : module !== undefined && isUnder(key, module);
}

function unnamedSite({ node, site }: ParameterUse): UnnamedSite {
  return { ...site, module: moduleOf(node) };
}

/** The places that read the initializer of a match, in words. */
function sitesOf({ use }: KeyMatch, matches: readonly KeyMatch[]): string[] {
  const { initializer } = use.site;
  return matches
    .filter((match) => match.use.site.initializer === initializer)
    .map(
      (match) =>
        `input ${match.use.site.slot} of ${match.use.site.node.opType} "${match.use.site.node.name}"`,
    );
}
