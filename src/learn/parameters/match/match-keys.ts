/** Which key of a state dict each parameter of a graph takes. */
import type { ParameterUse } from '../../../onnx/graph/parameters/find-parameters.js';
import type { Site } from '../../../onnx/graph/parameters/site.js';
import { spellForTorch } from '../../../onnx/graph/parameters/parameter-names.js';
import { encodeValues, fitsType } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializer, readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { ambiguous } from './load-errors.js';
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
  /** Places whose name was only a guess, and a wrong one as the reference shows. */
  readonly unexplained: readonly ParameterUse[];
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
  const unexplained: ParameterUse[] = [];
  const uses = takeStatedKeys(given, new Set([...state.keys(), ...(reference?.keys() ?? [])]));
  for (const use of uses) {
    const names = reference ? use.names.filter((name) => reference.has(name)) : use.names;
    const key = names.find((name) => state.has(name));
    if (key !== undefined && (key === names[0] || (await isRightName(model, use, names[0]!, state))))
      found.push({ use, key });
    else if (names.length > 0) missing.add(names[0]!);
    else if (use.isGuess) unexplained.push(use);
  }
  return { ...(await foundWithTied(model, uses, found, missing, state, reference)), unexplained };
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
 * The first match whose tensor in the file is not what the reference has for its key: the reference is not that of the present weights,
 * or the name was wrong.
 */
export async function disproved(
  model: ModelState,
  matches: readonly KeyMatch[],
  reference: StateValues,
): Promise<KeyMatch | undefined> {
  for (const match of matches) {
    const { initializer } = match.use.site.initializer;
    const value = reference.get(match.key);
    const isComparable = value && fitsType(value.dtype, initializer!.elemType);
    if (isComparable && !(await isHeldIn(model, match.use.site, value, match.use.perm))) return match;
  }
  return undefined;
}

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
  return !hasModule(state, likeliest) || !(await isConstantInFile(model, use));
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
): Promise<Omit<Matches, 'unexplained'>> {
  const found = [...matched];
  const missing: string[] = [];
  const isMatched = new Set(found.map(({ use }) => use));
  for (const name of names) {
    const listed = matched.find(({ use, key }) => key !== name && use.names.includes(name));
    const isTied = listed && !(await isConstantInFile(model, listed.use));
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

/** Whether a tensor of the file has these values. */
export async function isHeldIn(
  model: ModelState,
  { initializer: { initializer } }: Site,
  value: StateValue,
  perm: readonly number[] | null,
): Promise<boolean> {
  const { elemType } = initializer!;
  if (!fitsType(value.dtype, elemType)) return false;
  const bytes = encodeValues(await value.read(), elemType, perm);
  return Buffer.compare(bytes, await readInitializerBytes(model, initializer!)) === 0;
}

/** Whether the file has the same number everywhere in the tensor of a place. */
export function isConstantInFile(model: ModelState, { site }: ParameterUse): Promise<boolean> {
  return isConstant({ read: () => readInitializer(model, site.initializer.initializer!) });
}
