/** Keys of a state dict that no place of the graph takes: unused ones, ones that an exporter computed with or merged, unknown ones. */
import { isUnder, joinPath } from '../../../onnx/graph/module-path.js';
import {
  findParameters,
  moduleOf,
  readerOf,
  runningModule,
  type GraphParameters,
  type UnnamedSite,
} from '../../../onnx/graph/parameters/find-parameters.js';
import { calledOnce } from '../../../onnx/graph/parameters/parameter-names.js';
import { isOperation } from '../../../onnx/graph/names/operations.js';
import { slotName } from '../../../onnx/graph/parameters/parameter-slots.js';
import { torchDims } from '../../../onnx/graph/parameters/site.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { encodeValues } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { ambiguous } from './load-errors.js';
import { isConstantInFile, isHeldIn, type KeyMatch } from './match-keys.js';
import type { StateValue, StateValues } from '../folding/state-value.js';
import { isConstant, isEqual } from '../dicts/state-values.js';

/** What is known when the leftovers are sorted. */
export interface LeftoverInput {
  readonly model: ModelState;
  readonly state: StateValues;
  readonly reference: StateValues | undefined;
  readonly matches: readonly KeyMatch[];
  readonly unnamed: readonly UnnamedSite[];
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
  /** The exporter gave them other dims. */
  readonly reshaped: { readonly site: UnnamedSite; readonly key: string }[];
  /** They have the values of another key, and are loaded with it. */
  readonly equal: { readonly key: string; readonly other: string }[];
}

/** Sorts keys of floats. Throws `STATE_AMBIGUOUS` if a key may be read at a place that another key was found for. */
export async function sortLeftovers(keys: readonly string[], input: LeftoverInput): Promise<Leftovers> {
  const { model, state, reference, unnamed, isUnusedKey } = input;
  const parameters = findParameters(model.graph);
  const sorted: Leftovers = { absent: [], unexpected: [], derived: [], reshaped: [], equal: [] };
  const open: string[] = [];
  for (const key of keys) {
    if (isUnusedKey(key)) {
      sorted.absent.push(key);
      continue;
    }
    const before = reference?.get(key);
    const near = unnamed.filter((site) => isNear(site, key, parameters));
    const holding = before && (await sitesWith(model, before, near));
    if (holding) {
      for (const site of holding) sorted.reshaped.push({ site, key });
      continue;
    }
    const { dims } = state.get(key)!;
    // A parameter of one element may have become a constant of one element.
    const least = elementCount(dims) === 1 ? 1 : 2;
    const isDerived = before && near.some(({ initializer }) => sizeOf(initializer) >= least);
    const isNamed = unnamed.some(({ initializer }) => isResult(initializer, dims));
    if (isDerived || isNamed) sorted.derived.push(key);
    else open.push(key);
  }
  if (sorted.derived.length > 0) return sorted;
  for (const key of open) {
    const other = await mergedWith(key, input);
    if (other !== undefined) {
      sorted.equal.push({ key, other });
      continue;
    }
    const before = reference?.get(key);
    // Parameters of a module that runs may have become part of any tensor that nothing explains, those of others of one around them.
    const isLive = parameters.running.has(readerOf(key, parameters));
    const around = runningModule(key, parameters);
    const isDoubtful = unnamed.some(
      ({ module, initializer }) => (isLive || module === around) && sizeOf(initializer) > 1,
    );
    const isUnused = before && !isDoubtful && !(await isInFile(before, input));
    (isUnused ? sorted.absent : sorted.unexpected).push(key);
  }
  return sorted;
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
  return use.node.scanned.torchParameters !== undefined && isConstantInFile(model, use);
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

/** The places that read a tensor with the reference's values of a key, with other dims: a parameter that the exporter reshaped. */
async function sitesWith(
  model: ModelState,
  value: StateValue,
  sites: readonly UnnamedSite[],
): Promise<readonly UnnamedSite[] | undefined> {
  const fitting = sites.filter(({ initializer }) => sizeOf(initializer) === elementCount(value.dims));
  const holding: UnnamedSite[] = [];
  for (const site of fitting) if (await isHeldIn(model, site, value, null)) holding.push(site);
  return new Set(holding.map(({ initializer }) => initializer)).size === 1 ? holding : undefined;
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

/** Whether a parameter belongs to the module that reads a tensor. The model's own module has the parameters without a dot. */
function isNear({ module }: UnnamedSite, key: string, parameters: GraphParameters): boolean {
  return module === '' ? readerOf(key, parameters) === '' : module !== undefined && isUnder(key, module);
}

/** The places that read the initializer of a match, in words. */
function sitesOf({ use }: KeyMatch, matches: readonly KeyMatch[]): string[] {
  const { initializer } = use.site;
  return matches
    .filter((match) => match.use.site.initializer === initializer)
    .map(({ use: { site } }) => `input ${site.slot} of ${site.node.opType} "${site.node.name}"`);
}
