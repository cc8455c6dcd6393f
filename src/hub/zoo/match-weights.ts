/** A state dict → the values of a network's parameters. */
import { misfitsError } from '../../model/parameters/load-errors.js';
import { readStateDict } from '../../model/parameters/read-state-dict.js';
import type { StateTensor } from '../../model/parameters/state-tensor.js';
import type { StateSource } from '../../model/parameters/write-state-dict.js';
import { ELEMENT_TYPE } from '../../onnx/schema.js';
import { bytesOf } from '../../tensor/bits.js';
import { fromFloat16Bits } from '../../tensor/float16.js';
import { readTensor, type Tensor, type TensorLike } from '../../tensor/tensor.js';
import type { Architecture } from './network/architecture.js';
import { isComputed, type Parameter } from './network/network.js';

/** Reads the bytes of a parameter's values. */
export type Load = () => Promise<Uint8Array>;

/** Counts batches while torch trains; no network computes with it. */
const COUNTER = /(?:^|\.)num_batches_tracked$/;
const FLOATS = new Set<string>(['float32', 'float64', 'float16', 'bfloat16']);

/** How a state dict is matched. */
export interface MatchOptions {
  readonly name: string;
  readonly architecture: Architecture;
  /** Whether the classifier may have another size than in the state dict: it then starts anew. */
  readonly mayChangeHead: boolean;
}

/**
 * Finds the tensor of every parameter.
 *
 * @returns How to read the values, by key. Parameters that start anew are left out.
 * @throws {@link TapirError} `STATE_MISMATCH` with all keys that are missing, unexpected, or of other dims or dtypes; `STATE_INVALID`.
 */
export async function matchWeights(
  parameters: ReadonlyMap<string, Parameter>,
  weights: string | URL | StateSource,
  { name, architecture, mayChangeHead }: MatchOptions,
): Promise<ReadonlyMap<string, Load>> {
  const source = weights instanceof Map ? weights : await readStateDict(weights as string | URL);
  const state = spellKeys(source as StateSource, architecture);
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
    const tensor = isStored(given) ? given : readTensor(key, given);
    const isFloat = elemType === ELEMENT_TYPE.float32;
    const fits = String(tensor.dims) === String(dims);
    if (!fits && parameter.isHead && mayChangeHead) continue;
    if (fits && (isFloat ? FLOATS.has(tensor.dtype) : tensor.dtype === 'int64'))
      loads.set(key, async () => valuesOf('read' in tensor ? await tensor.read() : tensor));
    else
      misshapen.push({
        key,
        expected: `${isFloat ? 'float32' : 'int64'} [${dims.join(', ')}]`,
        actual: `${tensor.dtype} [${tensor.dims.join(', ')}]`,
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

/** The tensors under the keys of today's torchvision. A model in DataParallel has all keys under `module.`. */
function spellKeys(source: StateSource, { renameKey }: Architecture): Map<string, StateTensor | TensorLike> {
  const isWrapped = [...source.keys()].every((key) => key.startsWith('module.'));
  const spell = (key: string): string => {
    const bare = isWrapped ? key.slice('module.'.length) : key;
    return renameKey?.(bare) ?? bare;
  };
  return new Map([...source].map(([key, value]) => [spell(key), value]));
}

function isStored(value: StateTensor | TensorLike): value is StateTensor {
  return typeof (value as Partial<StateTensor>).read === 'function';
}

/** The bytes of float32 or int64 elements. */
function valuesOf({ dtype, data }: Tensor): Uint8Array {
  if (dtype === 'float16') return bytesOf(Float32Array.from(data, fromFloat16Bits));
  return bytesOf(dtype === 'float64' ? Float32Array.from(data) : data);
}
