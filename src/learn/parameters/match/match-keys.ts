/** Which key of a state dict each parameter of a graph takes. */
import { oncePer } from '../../../base/once-per.js';
import type { Graph, Node } from '../../../onnx/graph/graph.js';
import { isUnder, placeOf, splitPath } from '../../../onnx/graph/module-path.js';
import { moduleOf, type ParameterUse } from '../../../onnx/graph/parameters/find-parameters.js';
import { torchDims, type Site } from '../../../onnx/graph/parameters/site.js';
import { calledOnce, spellForTorch } from '../../../onnx/graph/parameters/parameter-names.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import { encodeValues, fitsType } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializer, readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { ambiguous } from './load-errors.js';
import { namesConstant } from './open-sites.js';
import type { StateValue, StateValues } from '../folding/state-value.js';
import { isConstant, isEqual } from '../dicts/state-values.js';

/** A place in the graph, and its key. */
export interface KeyMatch {
  readonly use: ParameterUse;
  readonly key: string;
}

export interface Matches {
  readonly found: readonly KeyMatch[];
  /** Likeliest names of places that no key was found for. */
  readonly missing: readonly string[];
  /** Places whose tensor has lost its name, and whose key no guess tells: with a reference, one that it proves. */
  readonly open: readonly ParameterUse[];
}

/**
 * Matches places with keys.
 *
 * @param reference - The state dict of the present weights. A name that is not in it is that of a constant, or only a guess.
 * @throws {@link TapirError} `STATE_AMBIGUOUS` if two keys are spelled as a torch call spells one.
 */
export async function matchKeys(
  model: ModelState,
  given: readonly ParameterUse[],
  state: StateValues,
  reference: StateValues | undefined,
): Promise<Matches> {
  const found: KeyMatch[] = [];
  const missing = new Set<string>();
  const open: ParameterUse[] = [];
  const isUnnamed = ({ site: { initializer } }: ParameterUse): boolean =>
    !namesConstant(model.graph, initializer, (reference ?? state).keys());
  const uses = takeStatedKeys(given, new Set([...state.keys(), ...(reference?.keys() ?? [])]));
  for (const use of uses) {
    const names = reference ? use.names.filter((name) => reference.has(name)) : use.names;
    const key = names.find((name) => state.has(name));
    const isRight =
      key !== undefined && (key === names[0] || (await isRightName(model, use, names[0]!, state)));
    const value = key === undefined || !isOtherName({ use, key }) ? undefined : reference?.get(key);
    if (isRight && value && !(await isHeldIn(model, use.site, value, use.perm))) open.push(use);
    else if (isRight) found.push({ use, key });
    else if (names.length > 0) missing.add(names[0]!);
    if (!isRight && (!reference || names.length === 0) && isUnnamed(use)) open.push(use);
  }
  const matches = await foundWithTied(model, uses, found, missing, state, reference);
  const isFound = new Set(matches.found.map(({ use }) => use));
  return { ...matches, open: open.filter((use) => !isFound.has(use)) };
}

/** Places with the keys that dynamo's exporter spelled in torch calls: dots and underscores are the same there. */
function takeStatedKeys(uses: readonly ParameterUse[], keys: ReadonlySet<string>): ParameterUse[] {
  const bySpelling = new Map<string, string>();
  const doubtful = new Set<string>();
  for (const key of keys) {
    const spelled = spellForTorch(key);
    if (bySpelling.has(spelled)) doubtful.add(spelled);
    bySpelling.set(spelled, key);
  }
  return uses.map((use) => {
    const stated = use.spelled === undefined ? undefined : bySpelling.get(use.spelled);
    if (stated === undefined) return use;
    if (doubtful.has(use.spelled!))
      throw ambiguous(
        stated,
        [...keys].filter((key) => spellForTorch(key) === use.spelled),
      );
    return { ...use, names: [stated] };
  });
}

/**
 * The first match whose tensor in the file is not what the reference has for its key: the reference is not that of the present weights.
 * Guessed names were compared before.
 */
export async function disproved(
  model: ModelState,
  matches: readonly KeyMatch[],
  reference: StateValues,
): Promise<KeyMatch | undefined> {
  for (const match of matches) {
    const { site, perm } = match.use;
    const value = reference.get(match.key);
    if (!value || isOtherName(match) || !fitsType(value.dtype, site.initializer.initializer!.elemType))
      continue;
    if (!(await isHeldIn(model, site, value, perm))) return match;
  }
  return undefined;
}

/** Whether a key is not what the file calls the tensor at its place. */
function isOtherName({ use: { node, site }, key }: KeyMatch): boolean {
  return site.initializer.name !== key && !node.inputs.some((input) => input?.name === key);
}

/**
 * Whether only elimination tells a match: the tensor has another name, and the node states neither the key, nor runs in its module as
 * the layer that has it, nor adds its bias there.
 */
export function isAssumed(match: KeyMatch, state: StateValues, graph: Graph): boolean {
  const { use, key } = match;
  const { node, site, spelled, isGuess, names } = use;
  // Equal tensors were merged, and transposed copies compared.
  const isKnown = state.has(site.initializer.name) || (!isGuess && names[0] === key);
  if (!isOtherName(match) || isKnown || spelled === spellForTorch(key)) return false;
  const module = spellings(node).find((one) => one !== '' && isUnder(key, one));
  if (module === undefined) return true;
  const bias = key.replace(/weight$/, 'bias');
  const near = [node, ...(node.outputs[0]?.uses ?? [])].flatMap(({ inputs }) => inputs);
  if (near.some((input) => input?.name === bias)) return false;
  return module !== splitPath(key)[0] || runsMoreThanLinear(graph).has(module);
}

/** The module of a node as it is written, and without the mark of a further call, which may be part of its name: `layer_0`. */
function spellings(node: Node): readonly string[] {
  const module = moduleOf(node) ?? '';
  return [module, calledOnce(module)];
}

/** What the nodes of `nn.Linear` are. */
const LINEAR = /^(Add|Cast|Constant|Gemm|Identity|MatMul|Reshape|Transpose|\w*QuantizeLinear)$/;

/** The modules that run more than a linear layer does. torch's own layers are what they are called. */
const runsMoreThanLinear: (graph: Graph) => ReadonlySet<string> = oncePer(
  ({ nodes }) =>
    new Set(
      nodes.flatMap((node) =>
        node.domain === '' && !LINEAR.test(node.opType) && placeOf(node)?.isLayer !== true
          ? spellings(node)
          : [],
      ),
    ),
);

/**
 * Whether a tensor goes by a later name than the likeliest. Equal values are merged if they are all ones or zeros; other values are
 * equal because the parameters are tied, and a state dict may have tied tensors once.
 */
async function isRightName(
  model: ModelState,
  use: ParameterUse,
  likeliest: string,
  state: StateValues,
): Promise<boolean> {
  return !hasModule(state, likeliest) || !(await isConstantInFile(model, use.site));
}

/** Whether a state dict has other tensors of the module of a name, so that the name itself is missing. */
function hasModule(state: StateValues, name: string): boolean {
  const module = name.slice(0, name.lastIndexOf('.') + 1);
  return module !== '' && [...state.keys()].some((key) => key.startsWith(module));
}

/**
 * Missing names that are tied to a key that is there: a place lists both and holds no constant, or the reference has equal values for
 * both.
 */
async function foundWithTied(
  model: ModelState,
  uses: readonly ParameterUse[],
  matched: readonly KeyMatch[],
  names: ReadonlySet<string>,
  state: StateValues,
  reference: StateValues | undefined,
): Promise<Omit<Matches, 'open'>> {
  const found = [...matched];
  const missing: string[] = [];
  const isMatched = new Set(found.map(({ use }) => use));
  for (const name of names) {
    const listed = matched.find(({ use, key }) => key !== name && use.names.includes(name));
    const isTied = listed && !(await isConstantInFile(model, listed.use.site));
    const key = isTied ? listed.key : await equalKey(name, state, reference);
    if (key === undefined) missing.push(name);
    else for (const use of uses) if (!isMatched.has(use) && use.names[0] === name) found.push({ use, key });
  }
  return { found, missing };
}

/** A key of the state dict that had the values of a name when the model was exported. */
async function equalKey(
  name: string,
  state: StateValues,
  reference: StateValues | undefined,
): Promise<string | undefined> {
  const wanted = reference?.get(name);
  if (!wanted || (await isConstant(wanted))) return undefined;
  for (const [key, value] of reference!) if (state.has(key) && (await isEqual(value, wanted))) return key;
  return undefined;
}

/** Whether a tensor of the file has these values, under its own dims or others. */
export async function isHeldIn(
  model: ModelState,
  { initializer }: Site,
  value: StateValue,
  perm: readonly number[] | null,
): Promise<boolean> {
  const { elemType, dims } = initializer.initializer!;
  if (!fitsType(value.dtype, elemType) || elementCount(value.dims) !== elementCount(dims)) return false;
  const tensor = { ...(await value.read()), dims: torchDims(initializer, perm) };
  const bytes = encodeValues(tensor, elemType, perm);
  return Buffer.compare(bytes, await readInitializerBytes(model, initializer.initializer!)) === 0;
}

/** Whether the file has the same number everywhere in the tensor of a place. */
export function isConstantInFile(model: ModelState, { initializer }: Site): Promise<boolean> {
  return isConstant({ read: () => readInitializer(model, initializer.initializer!) });
}
