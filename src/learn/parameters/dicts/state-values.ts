/** Tensors of a state dict, whatever it was made of, and their keys. */
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { readTensor } from '../../../onnx/tensor/tensor.js';
import { toFloat64 } from '../../../run/model/open/encode-values.js';
import type { StateValue } from '../folding/state-value.js';
import type { StateTensor } from '../state/state-tensor.js';
import type { StateSource } from './write-state-dict.js';

/** What DataParallel puts in front of all keys. */
const WRAPPER = 'module.';

/** The tensors of a state dict by key. Throws `INPUT_MISMATCH` for an object that is no tensor. */
export function stateValues(state: StateSource): Map<string, StateValue> {
  return new Map(
    Array.from(state, ([key, value]): [string, StateValue] => {
      if (typeof (value as Partial<StateTensor> | null | undefined)?.read === 'function')
        return [key, value as StateTensor];
      const tensor = readTensor(key, value);
      return [key, { dtype: tensor.dtype, dims: tensor.dims, read: () => Promise.resolve(tensor) }];
    }),
  );
}

/** Whether two tensors are equal bit for bit. */
export async function isEqual(a: StateValue, b: StateValue): Promise<boolean> {
  if (a.dtype !== b.dtype || String(a.dims) !== String(b.dims)) return false;
  const [left, right] = [await a.read(), await b.read()];
  return Buffer.compare(bytesOf(left.data), bytesOf(right.data)) === 0;
}

/** Whether all elements of a tensor are equal, as those of a fresh norm or a bias of zeros. */
export async function isConstant(value: Pick<StateValue, 'read'>): Promise<boolean> {
  const { data } = await value.read();
  return new Set<unknown>(data as Iterable<unknown>).size <= 1;
}

/** Whether a tensor has zeros and ones alone, as an identity matrix has: it may leave no trace in a product or a sum. */
export async function isNeutral(value: StateValue): Promise<boolean> {
  return toFloat64(await value.read()).every((element) => element === 0 || element === 1);
}

/** `module.` if all keys begin with it, otherwise "". */
export function wrapperPrefix(given: Iterable<string>): string {
  const keys = [...given];
  return keys.length > 0 && keys.every((key) => key.startsWith(WRAPPER)) ? WRAPPER : '';
}

/** The entries whose keys begin with a prefix, without it. */
export function dropPrefix<Item>(state: ReadonlyMap<string, Item>, prefix: string): Map<string, Item> {
  return new Map(
    [...state].flatMap(([key, item]) => (key.startsWith(prefix) ? [[key.slice(prefix.length), item]] : [])),
  );
}
