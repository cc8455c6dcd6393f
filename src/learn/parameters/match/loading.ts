/** Matching a state dict with a model, and what changes in the file. */
import type { Node, Value } from '../../../onnx/graph/graph.js';
import { splitPath } from '../../../onnx/graph/module-path.js';
import { operatorOf } from '../../../onnx/graph/operators/operators.js';
import {
  moduleOf,
  readerOf,
  type GraphParameters,
  type UnnamedSite,
} from '../../../onnx/graph/parameters/find-parameters.js';
import { calledOnce } from '../../../onnx/graph/parameters/parameter-names.js';
import { siteOf, torchDims, type Site } from '../../../onnx/graph/parameters/site.js';
import { channelsOf, type FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import { recogniseNetwork } from '../../../onnx/networks/families/recognise-network.js';
import type { Chunk } from '../../../onnx/file/wire/chunk.js';
import { elementTypeName } from '../../../onnx/file/wire/schema.js';
import { encodeValues, fitsType } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import type { ParameterOrigin } from '../../../run/model/open/named-parameters.js';
import { replaceTensors, type NewInput, type SiteEdit } from '../../../run/model/open/replace-tensors.js';
import { parametersWithCopies } from '../../../run/model/open/transposed-copies.js';
import { NormFinder, type FoundNorm } from '../folding/find-norm.js';
import { foldLayer, foldedKeys } from '../folding/fold-layer.js';
import { checkMerged, sortLeftovers } from './leftovers.js';
import {
  adviceFor,
  ambiguous,
  assumedNote,
  notPresent,
  misfitsError,
  unknownEpsilon,
  unproven,
  type Misfits,
} from './load-errors.js';
import { mapAtOnce } from './map-at-once.js';
import { disproved, isAssumed, matchKeys, type KeyMatch } from './match-keys.js';
import { hiddenSites, isSameAxes, mayHoldKey, useInside, type PlacedKey } from './open-sites.js';
import type { StateValues } from '../folding/state-value.js';

/** What {@link loadStateDict} did. */
export interface LoadReport {
  /** Keys that were loaded, in the order of the state dict, and how each lies in the file. */
  readonly entries: readonly { readonly key: string; readonly origin: ParameterOrigin }[];
  /** Parameters of the model that the state dict lacks; they keep their values. Empty if `strict`. */
  readonly missing: readonly string[];
  /** Keys that the model has no parameter for. */
  readonly unexpected: readonly string[];
  /** Keys of the source network that no output needs, as the file proves: counters, parameters of parts that were cut off. */
  readonly absent: readonly string[];
  /** What was assumed or changed on the way. */
  readonly notes: readonly string[];
}

/** What a state dict is loaded with. */
export interface LoadInput {
  readonly state: StateValues;
  readonly reference: StateValues | undefined;
  readonly epsilon: number | undefined;
  /** The norms of folded layers, if they were found before. */
  readonly norms?: ReadonlyMap<FoldedLayer, FoundNorm>;
  /** Receives what was assumed. */
  readonly notes: string[];
}

/** A place in the graph that takes the values of a key. */
interface KeyedSite {
  readonly site: Site;
  readonly key: string;
  readonly perm: readonly number[] | null;
  /** The dims under which the values of the key are read. */
  readonly dims: readonly number[];
}

/** Tensors that are read at a time: their file then stays open. */
const READS_AT_ONCE = 8;

/** One call of {@link loadStateDict}. */
export class Loading {
  readonly #model: ModelState;
  readonly #input: LoadInput;
  readonly #state: StateValues;
  readonly #origins = new Map<string, ParameterOrigin>();
  readonly #edits: SiteEdit[] = [];
  readonly #inputs: NewInput[] = [];
  readonly #misfits: { [Kind in keyof Misfits]: Misfits[Kind][number][] } = {
    missing: [],
    unexpected: [],
    misshapen: [],
    derived: [],
    unexplained: [],
  };
  readonly #absent: string[] = [];
  readonly #droppedBiases: { readonly node: Node; readonly key: string; readonly elemType: number }[] = [];
  readonly #placed: PlacedKey[] = [];
  /** Keys of layers that cannot be folded, as others are missing. */
  readonly #unused = new Set<string>();

  constructor(model: ModelState, input: LoadInput) {
    this.#model = model;
    this.#input = input;
    this.#state = input.state;
  }

  async run(
    strict: boolean | 'proven',
  ): Promise<{ readonly chunks: Chunk[] | undefined; readonly report: LoadReport }> {
    const { reference, notes } = this.#input;
    const { parameters, copies } = await parametersWithCopies(this.#model, (guess) => this.#state.has(guess));
    const { uses, folded, unnamed, computing } = parameters;
    // Bodies of If, Loop and Scan read parameters under their names.
    const inside = hiddenSites(this.#model.graph.nodes).filter(
      ({ initializer }) => !initializer.initializer!.parts && this.#state.has(initializer.name),
    );
    const all = [...uses, ...inside.map(useInside)];
    const matches = await matchKeys(this.#model, all, this.#state, reference);
    for (const match of matches.found) this.#checkUse(match);
    const layers = await this.#matchLayers(folded);
    this.#findDroppedBiases(matches.found);
    const wrong = reference && (await disproved(this.#model, matches.found, reference));
    if (wrong) throw notPresent(wrong.key);
    const open = matches.open.map(({ node, site, names }) => {
      const slot = node.inputs.findIndex((_, i) => siteOf(node, i)?.initializer === site.initializer);
      return { ...site, module: moduleOf(node), reader: { node, slot }, names };
    });
    await this.#sortLeftovers([...unnamed.filter(mayHoldKey), ...open], matches.found, parameters);
    const isPlaced = new Set<Site>(this.#placed.map(({ site }) => site));
    const placedNames = new Set(open.flatMap((site) => (isPlaced.has(site) ? site.names[0]! : [])));
    for (const site of open) if (!isPlaced.has(site)) placedNames.delete(site.names[0]!);
    this.#misfits.missing.unshift(...matches.missing.filter((name) => !placedNames.has(name)));
    const { missing, unexpected, misshapen, derived } = this.#misfits;
    // Where no other key explains the constant that a module reads, its own parameters may be in it.
    const isExplained = new Set(this.#placed.map(({ site }) => site.initializer));
    const isOpen = (constant: Value): boolean => !isExplained.has(constant);
    const readersOf = (key: string): string[] => [
      readerOf(key, parameters),
      ...copies.filter(({ parameter }) => parameter === key).flatMap(({ modules }) => modules),
    ];
    if (derived.length === 0)
      for (const key of new Set(matches.found.map((match) => match.key)))
        if (readersOf(key).some((module) => [...(computing.get(module) ?? [])].some(isOpen)))
          derived.push(key);
    const isRefused = strict !== false && missing.length + unexpected.length > 0;
    if (isRefused || misshapen.length + derived.length > 0 || this.#origins.size === 0)
      throw misfitsError(
        'the model',
        this.#misfits,
        adviceFor(this.#misfits, this.#state.size, reference !== undefined),
      );
    const assumed = [...this.#origins].flatMap(([key, { kind }]) => (kind === 'assumed' ? key : []));
    if (assumed.length > 0) {
      if (strict === 'proven') throw unproven(assumed);
      notes.push(assumedNote(assumed));
    }
    await checkMerged(this.#model, this.#state, matches.found);
    // Only now: nothing is read of a state dict that does not fit.
    const places = matches.found.map(({ use: { site, perm }, key }) => {
      return { site, key, perm, dims: torchDims(site.initializer, perm) };
    });
    places.push(
      ...this.#placed.map(({ site, key, perm }) => ({ site, key, perm, dims: this.#state.get(key)!.dims })),
    );
    this.#edits.push(...(await mapAtOnce(places, READS_AT_ONCE, (place) => this.#edit(place))));
    for (const { layer, norm, epsilon } of layers) {
      if (epsilon === undefined) throw unknownEpsilon(layer.layer, norm);
      await this.#fold(layer, norm, epsilon);
    }
    for (const { node, key, elemType } of this.#droppedBiases) {
      const tensor = await this.#state.get(key)!.read();
      this.#addBias(node, key, elemType, encodeValues(tensor, elemType, null), tensor.dims);
    }
    const chunks = await replaceTensors(this.#model, this.#edits, this.#inputs);
    const entries = [...this.#state.keys()].flatMap((key) => {
      const origin = this.#origins.get(key);
      return origin ? [{ key, origin }] : [];
    });
    return { chunks, report: { entries, missing, unexpected, absent: this.#absent, notes } };
  }

  #checkUse(match: KeyMatch): void {
    const { use, key } = match;
    const { initializer } = use.site;
    const inFile = torchDims(initializer, use.perm);
    const { dims } = this.#state.get(key)!;
    // The reference proves values under any dims; names prove that axes of 1 came or went.
    const known = this.#input.reference?.get(key)?.dims ?? (isSameAxes(dims, inFile) ? dims : inFile);
    this.#check(key, known, initializer.initializer!.elemType);
    const isGuess = !this.#input.reference && isAssumed(match, this.#state, this.#model.graph);
    this.#addOrigin(key, isGuess, use.perm, String(known) === String(inFile));
  }

  /** Notes how a key lies in the file, beside how it lies there already. */
  #addOrigin(key: string, isGuess: boolean, perm: readonly number[] | null, isSameDims: boolean): void {
    const form: ParameterOrigin = perm ? { kind: 'transposed', perm } : { kind: 'exact' };
    const origin: ParameterOrigin = isGuess ? { kind: 'assumed' } : isSameDims ? form : { kind: 'reshaped' };
    const before = this.#origins.get(key);
    const isSame = before === undefined || JSON.stringify(before) === JSON.stringify(origin);
    if (isGuess || isSame) this.#origins.set(key, origin);
    else if (before.kind !== 'assumed') this.#origins.set(key, { kind: 'several' });
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
  ): Promise<{ readonly layer: FoldedLayer; readonly norm: string; readonly epsilon: number | undefined }[]> {
    const given = folded.filter(({ layer }) => {
      const isGiven = this.#state.has(`${layer}.weight`);
      if (!isGiven) this.#misfits.missing.push(`${layer}.weight`);
      return isGiven;
    });
    const { reference, epsilon: stated, norms, notes } = this.#input;
    const found = norms ?? (await new NormFinder(this.#model, this.#state, reference, stated).find(given));
    const layers = [];
    for (const layer of given) {
      const { norm, epsilon, isPresent, candidates } = found.get(layer)!;
      if (norm === undefined) throw ambiguous(`${layer.layer}.weight`, candidates);
      const keys = foldedKeys(layer, norm);
      const { elemType } = layer.weight.initializer.initializer!;
      const missing = keys.required.filter((key) => !this.#state.has(key));
      this.#misfits.missing.push(...missing);
      if (missing.length > 0) {
        for (const key of [...keys.required, ...keys.optional]) this.#unused.add(key);
        notes.push(`${layer.layer} keeps its weights, as ${missing.join(', ')} is missing`);
        continue;
      }
      this.#check(`${layer.layer}.weight`, torchDims(layer.weight.initializer, layer.perm), elemType);
      const channels = channelsOf(layer);
      const all = [...keys.required, ...keys.optional].filter((key) => this.#state.has(key));
      for (const key of all) if (key !== `${layer.layer}.weight`) this.#check(key, [channels], elemType);
      const origin: ParameterOrigin = { kind: 'folded', layer: layer.layer, norm, axis: layer.axis };
      for (const key of all) this.#origins.set(key, origin);
      if (isPresent) continue;
      layers.push({ layer, norm, epsilon });
    }
    return layers;
  }

  /** Finds biases that the exporter dropped: the state dict has them, and the layer has no input for them. */
  #findDroppedBiases(matches: readonly KeyMatch[]): void {
    for (const { use, key } of matches) {
      const { node } = use;
      const bias = key.replace(/weight$/, 'bias');
      if (
        !operatorOf(node)?.isLayer ||
        bias === key ||
        node.inputs[2] ||
        !mayHaveBias(node, bias) ||
        !this.#state.has(bias) ||
        this.#origins.has(bias)
      )
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
  async #sortLeftovers(
    open: readonly UnnamedSite[],
    matches: readonly KeyMatch[],
    parameters: GraphParameters,
  ): Promise<void> {
    const floats: string[] = [];
    for (const [key, { dtype }] of this.#state) {
      if (this.#origins.has(key) || this.#unused.has(key)) continue;
      // Counters and indices are not weights, and exporters keep none of them.
      (isFloat(dtype) ? floats : this.#absent).push(key);
    }
    const { reference } = this.#input;
    const network = recogniseNetwork(this.#state);
    const sorted = await sortLeftovers(floats, {
      model: this.#model,
      parameters,
      state: this.#state,
      reference,
      matches,
      open,
      isUnusedKey: (key) => network?.unusedKeys?.test(key) === true,
    });
    this.#absent.push(...sorted.absent);
    this.#misfits.unexpected.push(...sorted.unexpected);
    this.#misfits.derived.push(...sorted.derived);
    this.#misfits.unexplained.push(...sorted.unexplained);
    for (const { key, other } of sorted.equal) this.#origins.set(key, this.#origins.get(other)!);
    for (const { site, key, perm, isNamed } of sorted.placed) {
      const { elemType, dims: inFile } = site.initializer.initializer!;
      const dims = reference?.get(key)?.dims ?? this.#state.get(key)!.dims;
      this.#check(key, dims, elemType);
      const given = perm ? perm.map((axis) => dims[axis]) : dims;
      this.#addOrigin(key, !reference && !isNamed, perm, String(given) === String(inFile));
      this.#placed.push({ site, key, perm, isNamed });
    }
  }

  async #edit({ site, key, perm, dims }: KeyedSite): Promise<SiteEdit> {
    const { elemType } = site.initializer.initializer!;
    const tensor = await this.#state.get(key)!.read();
    return { site, name: key, bytes: encodeValues({ ...tensor, dims }, elemType, perm) };
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

/** Whether a layer without a bias had this one: dynamo's exporter states a second parameter; else the module of the bias ran the layer. */
function mayHaveBias(node: Node, bias: string): boolean {
  const stated = node.scanned.torchParameters;
  if (stated) return stated.length > 1;
  const module = moduleOf(node);
  return module === undefined || calledOnce(module) === splitPath(bias)[0];
}

function isFloat(dtype: string): boolean {
  return dtype.startsWith('float') || dtype === 'bfloat16';
}
