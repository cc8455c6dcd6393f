/** A state dict → the values of a network's parameters. */
import { invalidOption, isText } from '../../base/checks.js';
import { misfitsError, type Misfits } from '../parameters/match/load-errors.js';
import { readStateDict } from '../parameters/dicts/read-state-dict.js';
import type { StateValue } from '../parameters/folding/state-value.js';
import { dropPrefix, stateValues, wrapperPrefix } from '../parameters/dicts/state-values.js';
import type { StateSource } from '../parameters/dicts/write-state-dict.js';
import { encodeValues, fitsType } from '../../run/model/open/encode-values.js';
import { elementTypeName } from '../../onnx/file/wire/schema.js';
import { COUNTER } from '../../onnx/networks/families/recognise-network.js';
import type { Architecture } from '../../onnx/networks/architecture.js';
import { isComputed, type Parameter } from '../../onnx/networks/network.js';

/** Reads the bytes of a parameter's values. */
export type Load = () => Promise<Uint8Array>;

/** A path, a file: URL, or a Map of at least one tensor. Throws `OPTION_INVALID`. */
export function checkWeights(option: string, value: unknown): string | URL | StateSource {
  if (isText(value) || value instanceof URL || (value instanceof Map && value.size > 0)) return value;
  throw invalidOption(option, 'a path, a file: URL, or a Map of tensors', value);
}

/** How a network spells the keys of its weights. */
type Spelling = Pick<Architecture, 'renameKey' | 'unusedKeys'>;

/** The tensors of weights under the keys of today's torchvision. Throws `STATE_INVALID`. */
export async function readWeights(
  weights: string | URL | StateSource,
  { renameKey }: Spelling,
): Promise<ReadonlyMap<string, StateValue>> {
  const source = weights instanceof Map ? weights : await readStateDict(weights as string | URL);
  const state = stateValues(source as StateSource);
  const bare = dropPrefix(state, wrapperPrefix(state.keys()));
  return new Map([...bare].map(([key, value]) => [renameKey?.(key) ?? key, value]));
}

export interface MatchOptions extends Spelling {
  /** The network, for errors. */
  readonly subject: string;
  /** Whether the classifier may have another size than in the state dict: it then starts from scratch. */
  readonly mayChangeHead: boolean;
  /** What to do about weights that do not fit. */
  readonly advice: (misfits: Misfits) => string;
}

/**
 * Finds the tensor of every parameter, and returns how to read the values, by key. Parameters that start from scratch are left out. Throws
 * `STATE_MISMATCH` with all keys that are missing, unexpected, or of other dims or dtypes.
 */
export function matchWeights(
  parameters: ReadonlyMap<string, Parameter>,
  weights: ReadonlyMap<string, StateValue>,
  { subject, mayChangeHead, advice, unusedKeys }: MatchOptions,
): ReadonlyMap<string, Load> {
  const loads = new Map<string, Load>();
  const missing: string[] = [];
  const misshapen: { key: string; expected: string; actual: string }[] = [];
  for (const parameter of parameters.values()) {
    const { key, dims, elemType } = parameter;
    const given = weights.get(key);
    if (given === undefined) {
      // What the architecture computes needs no file.
      if (!isComputed(parameter)) missing.push(key);
      continue;
    }
    const fits = String(given.dims) === String(dims);
    if (!fits && parameter.isHead && mayChangeHead) continue;
    if (fits && fitsType(given.dtype, elemType))
      loads.set(key, async () => encodeValues(await given.read(), elemType, null));
    else
      misshapen.push({
        key,
        expected: `${elementTypeName(elemType)} [${dims.join(', ')}]`,
        actual: `${given.dtype} [${given.dims.join(', ')}]`,
      });
  }
  const unexpected = [...weights.keys()].filter(
    (key) => !parameters.has(key) && !COUNTER.test(key) && unusedKeys?.test(key) !== true,
  );
  if (missing.length + misshapen.length + unexpected.length > 0) {
    const misfits = { missing, unexpected, misshapen, derived: [], unexplained: [] };
    throw misfitsError(subject, misfits, advice(misfits));
  }
  return loads;
}

/** What to do about weights that do not fit a network: if only the classifier differs, state the number of classes that they have. */
export function adviceFor(
  { missing, unexpected, misshapen }: Misfits,
  parameters: ReadonlyMap<string, Parameter>,
  weights: ReadonlyMap<string, StateValue>,
  classes: number,
): string {
  const counts = misshapen.map(({ key }) => {
    const { dims, isHead } = parameters.get(key)!;
    const given = weights.get(key)!.dims;
    const isAlike = isHead && String(given.slice(1)) === String(dims.slice(1));
    return isAlike ? (given[0]! * classes) / dims[0]! : Number.NaN;
  });
  const [count] = counts;
  const isHeadAlone = missing.length + unexpected.length === 0 && counts.every((other) => other === count);
  return isHeadAlone && Number.isInteger(count)
    ? `the weights are for ${count} classes: add --num-classes ${count} (in code numClasses: ${count})`
    : 'give the weights of this network';
}

/** For each classifier that weights have in another size, so that it starts from scratch: what it is now. */
export function describeReplaced(
  parameters: ReadonlyMap<string, Parameter>,
  weights: ReadonlyMap<string, StateValue>,
  loads: ReadonlyMap<string, Load>,
): string[] {
  return [...parameters.values()].flatMap(({ key, dims }) => {
    const before = weights.get(key)?.dims[0];
    if (loads.has(key) || before === undefined || !key.endsWith('.weight')) return [];
    const name = key.slice(0, -'.weight'.length);
    return [`"${name}" gets ${dims[0]} outputs in place of ${before}, and starts from scratch`];
  });
}
