/** Keys of a state dict that no place of the graph takes: unused ones, ones that an exporter computed with or merged, unknown ones. */
import { isUnder, joinPath, splitPath } from '../../../onnx/graph/module-path.js';
import {
  moduleOf,
  type GraphParameters,
  type UnnamedSite,
} from '../../../onnx/graph/parameters/find-parameters.js';
import { calledOnce } from '../../../onnx/graph/parameters/parameter-names.js';
import { isOfCode, isOperation, mayHoldParameter } from '../../../onnx/graph/names/operations.js';
import { holdsSizes, slotName } from '../../../onnx/graph/parameters/parameter-slots.js';
import { torchDims } from '../../../onnx/graph/parameters/site.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { encodeValues } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { ambiguous } from './load-errors.js';
import { isAssumed, isConstantInFile, isHeldIn, type KeyMatch } from './match-keys.js';
import { around, hiddenSites, isNear, neededNodes, type PlacedKey } from './open-sites.js';
import { placeByName } from './place-by-name.js';
import { placeByValue } from './place-by-value.js';
import type { StateValue, StateValues } from '../folding/state-value.js';
import { isConstant, isEqual, isNeutral } from '../dicts/state-values.js';

/** What is known when the leftovers are sorted. */
export interface LeftoverInput {
  readonly model: ModelState;
  readonly parameters: GraphParameters;
  readonly state: StateValues;
  readonly reference: StateValues | undefined;
  readonly matches: readonly KeyMatch[];
  /** Places whose tensors have no key yet. */
  readonly open: readonly UnnamedSite[];
  /** Whether the recognised network uses a key in training only. */
  readonly isUnusedKey: (key: string) => boolean;
}

/** Keys by what they are. */
export interface Leftovers {
  /** The network does not compute with them. */
  readonly absent: string[];
  readonly unexpected: string[];
  /** The exporter computed something else of them. */
  readonly derived: string[];
  /** They lie in tensors that have lost their names. */
  readonly placed: readonly PlacedKey[];
  /** They have the values of another key, and are loaded with it. */
  readonly equal: { readonly key: string; readonly other: string }[];
  /** Names of tensors that the reference does not explain. */
  readonly unexplained: readonly string[];
}

/** Sorts keys of floats. Throws `STATE_AMBIGUOUS` if a key may be read at a place that another key was found for. */
export async function sortLeftovers(keys: readonly string[], input: LeftoverInput): Promise<Leftovers> {
  const { model, parameters, state, reference, open: given, isUnusedKey } = input;
  const needed = reference && neededNodes(model.graph);
  const sites = needed ? given.filter(({ node }) => needed.has(node)) : given;
  const placed = reference
    ? await placeByValue(sites, new Set(keys), { model, parameters, state, reference })
    : placeByName(sites, keys, state, parameters);
  const known = new Set(placed.map(({ site }) => site));
  const unnamed = sites.filter((site) => !known.has(site));
  const found = new Set(input.matches.map(({ use }) => use.site.initializer));
  if (needed) unnamed.push(...hiddenSites(needed).filter(({ initializer }) => !found.has(initializer)));
  const doubts = reference ? await findDoubts(unnamed, placed, input) : undefined;
  const sorted = { absent: [], unexpected: [], derived: [], equal: [] } as Omit<
    Leftovers,
    'placed' | 'unexplained'
  >;
  const open: string[] = [];
  const isPlaced = new Set(placed.map(({ key }) => key));
  for (const key of keys) {
    if (isPlaced.has(key)) continue;
    if (isUnusedKey(key)) {
      sorted.absent.push(key);
      continue;
    }
    const { dims } = state.get(key)!;
    // A parameter of one element may have become a constant of one element.
    const least = elementCount(dims) === 1 ? 1 : 2;
    const near = reference?.has(key) ? unnamed.filter((site) => isNear(site, key, parameters)) : [];
    const isDerived = near.some(({ initializer }) => sizeOf(initializer) >= least);
    const isNamed = unnamed.some(({ initializer }) => isResult(initializer, dims));
    if (isDerived || isNamed) sorted.derived.push(key);
    else open.push(key);
  }
  // Where code computes with a parameter that is no layer's, it may have computed another tensor of it.
  if (reference)
    for (const { key, site, isNamed } of placed)
      if (!isNamed && unnamed.some((other) => other.module === site.module && mayBeLearned(other)))
        sorted.derived.push(key);
  for (const key of sorted.derived.length > 0 ? [] : open) {
    const other = await mergedWith(key, input);
    const before = reference?.get(key);
    if (other !== undefined) sorted.equal.push({ key, other });
    else if (before && !(await doubts!(key, before)) && !(await isInFile(before, input)))
      sorted.absent.push(key);
    else sorted.unexpected.push(key);
  }
  const unexplained = reference
    ? unnamed.filter(mayBeLearned).map(({ initializer }) => initializer.name)
    : [];
  return { ...sorted, placed, unexplained: [...new Set(unexplained)] };
}

/**
 * Whether a key with no tensor may have become part of some tensor. That may be one that the reference does not explain. Or it has lost its
 * name and holds another key's values, which times ones or plus zeros stay the same.
 */
async function findDoubts(
  unexplained: readonly UnnamedSite[],
  placed: readonly PlacedKey[],
  { model, parameters, state, matches }: LeftoverInput,
): Promise<(key: string, before: StateValue) => Promise<boolean>> {
  const open: { readonly size: number; readonly isFlat: boolean }[] = [];
  for (const site of unexplained.filter(mayBeLearned))
    // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
    open.push({
      size: sizeOf(site.initializer),
      isFlat: site.slot >= 0 && (await isConstantInFile(model, site)),
    });
  const renamed = [
    ...placed.filter(({ isNamed }) => !isNamed).map(({ site }) => site.module),
    ...matches.filter((match) => isAssumed(match, state, model.graph)).map(({ use }) => moduleOf(use.node)),
  ];
  const layers = new Set(matches.flatMap(({ use, key }) => (use.isGuess ? splitPath(key)[0] : [])));
  return async (key, before) => {
    const [module] = splitPath(key);
    const isLone = elementCount(before.dims) === 1;
    const isFlat = await isConstant(before);
    if (open.some((one) => (one.size === 1 ? isLone : isFlat || !one.isFlat))) return true;
    if (!(await isNeutral(before))) return false;
    // The code of a module may pass its parameters on to modules inside.
    const isRun = module === '' || parameters.running.has(module);
    const mayTake = (path = ''): boolean =>
      isRun ? isUnder(path, module) : calledOnce(path) === around(key, parameters);
    return layers.has(module) || renamed.some(mayTake);
  };
}

/**
 * Checks places that read a merged tensor, without evidence of which merged parameter each reads.
 *
 * @throws {@link TapirError} `STATE_AMBIGUOUS` if their values differ now.
 */
export async function checkMerged(
  model: ModelState,
  state: StateValues,
  matches: readonly KeyMatch[],
): Promise<void> {
  for (const doubtful of matches) {
    if (isCertain(doubtful)) continue;
    const tensor = doubtful.use.site.initializer.initializer!;
    const merged = matches.filter(({ use }) => use.site.initializer === doubtful.use.site.initializer);
    const now = await readInitializerBytes(model, tensor);
    let first: Uint8Array | undefined;
    for (const { key, use } of merged) {
      const bytes = encodeValues(await state.get(key)!.read(), tensor.elemType, use.perm);
      first ??= (await mayBeConstant(model, doubtful)) ? now : bytes;
      if (Buffer.compare(bytes, first) !== 0) throw ambiguous(key, sitesOf(doubtful, matches));
    }
  }
}

/** Whether a place may read a constant of the network: dynamo's exporter merges equal ones with parameters. */
async function mayBeConstant(model: ModelState, { use }: KeyMatch): Promise<boolean> {
  return use.node.scanned.torchParameters !== undefined && isConstantInFile(model, use.site);
}

/**
 * The key of a match that takes the values of this one, too. Equal parameters were merged, and the values are still equal.
 *
 * @throws {@link TapirError} `STATE_AMBIGUOUS` if the values differ now, and nothing shows where each is read.
 */
async function mergedWith(
  key: string,
  { model, state, reference, matches }: LeftoverInput,
): Promise<string | undefined> {
  const value = state.get(key)!;
  const isVaried = !(await isConstant(value));
  const before = reference?.get(key);
  for (const match of matches) {
    const { use } = match;
    if (String(torchDims(use.site.initializer, use.perm)) !== String(value.dims)) continue;
    const isEqualNow = await isEqual(value, state.get(match.key)!);
    if (isEqualNow && isVaried) return match.key;
    const wasEqual = before
      ? await isHeldIn(model, use.site, before, use.perm)
      : !reference && !isCertain(match);
    if (!wasEqual) continue;
    if (isEqualNow && before) return match.key;
    if (!isEqualNow && (!isCertain(match) || (before && !(await isConstant(before)))))
      throw ambiguous(key, sitesOf(match, matches));
  }
  return undefined;
}

/** Whether an initializer that the graph reads as a parameter has these values: the exporter may have merged whole nodes. */
async function isInFile(value: StateValue, { model, matches }: LeftoverInput): Promise<boolean> {
  const seen = new Set<Value>();
  for (const match of matches) {
    const { site, perm } = match.use;
    const isOther = String(torchDims(site.initializer, perm)) !== String(value.dims);
    if (isOther || seen.has(site.initializer)) continue;
    seen.add(site.initializer);
    if (await isHeldIn(model, site, value, perm)) return true;
  }
  return false;
}

/** Whether it is sure that a place reads the parameter of its key. */
function isCertain({ use, key }: KeyMatch): boolean {
  const { node, site, isCertain: isStated } = use;
  if (isStated) return true;
  const module = moduleOf(node);
  const attribute = slotName(node, node.inputs.indexOf(site.initializer));
  return module !== undefined && attribute !== undefined && key === joinPath(calledOnce(module), attribute);
}

function sizeOf({ initializer }: Value): number {
  return elementCount(initializer!.dims);
}

/** Whether an initializer is what an operation gave, by its name, and may have been computed of a parameter of these dims. */
function isResult({ name, initializer }: Value, dims: readonly number[]): boolean {
  return isOperation(name) && String(initializer!.dims) === String(dims);
}

/** Whether a tensor may be learned: the exporter did not make it of numbers of the code alone, and it scales no sizes. */
function mayBeLearned({ initializer, reader }: UnnamedSite): boolean {
  if (sizeOf(initializer) === 0 || holdsSizes(reader.node, reader.slot)) return false;
  return sizeOf(initializer) === 1 ? mayHoldParameter(initializer.name) : !isOfCode(initializer.name);
}

/** The places that read the initializer of a match, in words. */
function sitesOf({ use }: KeyMatch, matches: readonly KeyMatch[]): string[] {
  const { initializer } = use.site;
  return matches
    .filter((match) => match.use.site.initializer === initializer)
    .map(({ use: { site } }) => `input ${site.slot} of ${site.node.opType} "${site.node.name}"`);
}
