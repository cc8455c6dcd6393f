/** A state dict → the values of a network's parameters. */
import { misfitsError } from '../parameters/match/load-errors.js';
import { readStateDict } from '../parameters/dicts/read-state-dict.js';
import type { StateValue } from '../parameters/folding/state-value.js';
import { dropPrefix, stateValues, wrapperPrefix } from '../parameters/dicts/state-values.js';
import type { StateSource } from '../parameters/dicts/write-state-dict.js';
import { encodeValues, fitsType } from '../model/open/encode-values.js';
import { elementTypeName } from '../onnx/wire/schema.js';
import { COUNTER } from '../networks/families/recognise-network.js';
import type { Architecture } from '../networks/architecture.js';
import { isComputed, type Parameter } from '../networks/network.js';

/** Reads the bytes of a parameter's values. */
export type Load = () => Promise<Uint8Array>;

/**
 * Finds the tensor of every parameter, and returns how to read the values, by key. Parameters that start from scratch are left out. Throws
 * `STATE_MISMATCH` with all keys that are missing, unexpected, or of other dims or dtypes; `STATE_INVALID`.
 *
 * @param mayChangeHead - Whether the classifier may have another size than in the state dict: it then starts from scratch.
 */
export async function matchWeights(
  parameters: ReadonlyMap<string, Parameter>,
  weights: string | URL | StateSource,
  name: string,
  architecture: Architecture,
  mayChangeHead: boolean,
): Promise<ReadonlyMap<string, Load>> {
  const source = weights instanceof Map ? weights : await readStateDict(weights as string | URL);
  const state = spellKeys(stateValues(source as StateSource), architecture);
  const loads = new Map<string, Load>();
  const missing: string[] = [];
  const misshapen: { key: string; expected: string; actual: string }[] = [];
  for (const parameter of parameters.values()) {
    const { key, dims, elemType } = parameter;
    const given = state.get(key);
    state.delete(key);
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
  const unexpected = [...state.keys()].filter(
    (key) => !COUNTER.test(key) && architecture.trainingOnly?.test(key) !== true,
  );
  if (missing.length + misshapen.length + unexpected.length > 0)
    throw misfitsError(
      name,
      { missing, unexpected, misshapen, derived: [] },
      'give the weights of this network, or numClasses for another classifier',
    );
  return loads;
}

/** The tensors under the keys of today's torchvision. */
function spellKeys(
  state: ReadonlyMap<string, StateValue>,
  { renameKey }: Architecture,
): Map<string, StateValue> {
  const bare = dropPrefix(state, wrapperPrefix(state.keys()));
  return new Map([...bare].map(([key, value]) => [renameKey?.(key) ?? key, value]));
}
