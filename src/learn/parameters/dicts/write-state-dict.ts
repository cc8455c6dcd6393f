/** Writing tensors as a safetensors file. */
import { resolve } from 'node:path';
import { writeAtomically } from '../../../base/atomic-file.js';
import { checkText, invalidOption, show, type Options } from '../../../base/checks.js';
import { boolean, readOptions, type Fields } from '../../../base/options.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { elementCount, mismatch, readTensor, type TensorLike } from '../../../onnx/tensor/tensor.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import { METADATA_KEY } from '../safetensors/safetensors-header.js';
import type { StateTensor } from '../state/state-tensor.js';
import { STORED_TYPES, storedBytes, type StoredType } from '../state/stored-types.js';

/** Options of {@link writeStateDict}. */
export interface WriteStateOptions {
  /**
   * Replace a file that exists.
   * @default false
   */
  readonly overwrite: boolean;
}

const WRITE_FIELDS: Fields<WriteStateOptions> = { overwrite: boolean(false, 'replace a file that exists') };

/** Tensors by name: what {@link readStateDict} gives, or a `Map` of tensors. */
export type StateSource = ReadonlyMap<string, StateTensor | TensorLike>;

/** Hugging Face's loaders want to know for which framework the tensors were laid out. */
const METADATA = { format: 'pt' };

/** Data starts at a multiple of this, so that elements of 8 bytes can be used where they lie. */
const ALIGNMENT = 8;

/** A tensor to write. */
interface Payload {
  readonly key: string;
  readonly dtype: StoredType;
  readonly dims: readonly number[];
  readonly sizeBytes: number;
  readonly load: () => Promise<Uint8Array>;
}

/**
 * Writes tensors as a `.safetensors` file: under a temporary name first, then renamed.
 *
 * @param path - The file to write. A file that exists is replaced only with `overwrite`; it may be the one that `state` was read from.
 * @param state - Tensors by name. The file lists them in this order, with these dtypes: a tensor of a file keeps its stored dtype,
 * bfloat16 for example.
 * @param given - See {@link WriteStateOptions}.
 *
 * @remarks One tensor at a time is in memory. The texts of a safetensors file (`metadata`) are copied; otherwise the file says
 * `format: pt`, as Hugging Face's libraries expect.
 *
 * @throws {@link TapirError} `OUTPUT_EXISTS`; `OUTPUT_UNWRITABLE`; `OPTION_INVALID` if there are no tensors; `INPUT_MISMATCH` for an
 * object that is not a tensor of numbers; `STATE_INVALID`, `MODEL_CHANGED` if a tensor of a file cannot be read.
 *
 * @example
 * ```ts
 * import { readStateDict, writeStateDict } from 'onnx-tapir/parameters';
 *
 * const state = await readStateDict('resnet50.pth');
 * await writeStateDict('resnet50.safetensors', state);
 * await writeStateDict('head.safetensors', new Map([...state].filter(([key]) => key.startsWith('fc.'))));
 * ```
 */
export async function writeStateDict(
  path: string,
  state: StateSource,
  given: Options<WriteStateOptions> = {},
): Promise<void> {
  const { overwrite } = readOptions(WRITE_FIELDS, given, 'writeStateDict');
  const target = resolve(checkText('path', path));
  if (!(state instanceof Map) || state.size === 0)
    throw invalidOption('state', 'a Map of at least one tensor', state);
  const payloads = Array.from(state, ([key, value]: [unknown, unknown]) => payloadOf(key, value));
  if (!overwrite) checkAbsent(target);
  // Larger elements first: each tensor is aligned to its elements, as the safetensors library does it.
  const ordered = payloads.toSorted((a, b) => STORED_TYPES[b.dtype].bits - STORED_TYPES[a.dtype].bits);
  const { metadata } = state as { readonly metadata?: Readonly<Record<string, string>> };
  const texts = metadata && Object.keys(metadata).length > 0 ? metadata : METADATA;
  const header = encodeHeader(payloads, ordered, texts);
  await writeAtomically(target, async (file) => {
    await file.append(header);
    for (const { key, sizeBytes, load } of ordered) {
      const bytes = await load();
      if (bytes.byteLength !== sizeBytes)
        throw mismatch(key, `${sizeBytes} bytes long`, `${bytes.byteLength} bytes`);
      await file.append(bytes);
    }
  });
}

function payloadOf(key: unknown, value: unknown): Payload {
  if (typeof key !== 'string' || key === METADATA_KEY)
    throw invalidOption('state', `a Map whose keys are texts other than "${METADATA_KEY}"`, key);
  if (isStateTensor(value)) {
    const { dtype, dims } = value;
    return { key, dtype, dims, sizeBytes: storedBytes(dtype, elementCount(dims)), load: () => value.bytes() };
  }
  const { dtype, dims, data } = readTensor(key, value);
  if (dtype === 'string') throw mismatch(key, 'a tensor of numbers', show(value));
  const bytes = bytesOf(data);
  return { key, dtype, dims, sizeBytes: bytes.byteLength, load: () => Promise.resolve(bytes) };
}

function isStateTensor(value: unknown): value is StateTensor {
  return typeof (value as Partial<StateTensor> | null | undefined)?.bytes === 'function';
}

/** The header: keys in the order of the state dict, places in the order of the data. */
function encodeHeader(
  payloads: readonly Payload[],
  ordered: readonly Payload[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const starts = new Map<Payload, number>();
  let at = 0;
  for (const payload of ordered) {
    starts.set(payload, at);
    at += payload.sizeBytes;
  }
  const describe = (payload: Payload): string => {
    const start = starts.get(payload)!;
    return JSON.stringify({
      dtype: STORED_TYPES[payload.dtype].safetensors,
      shape: payload.dims,
      data_offsets: [start, start + payload.sizeBytes],
    });
  };
  // Made by hand: an object would put integer-like keys first.
  const fields = payloads.map((payload) => `${JSON.stringify(payload.key)}:${describe(payload)}`);
  const text = Buffer.from(`{${[`"${METADATA_KEY}":${JSON.stringify(metadata)}`, ...fields].join(',')}}`);
  const length = Math.ceil(text.length / ALIGNMENT) * ALIGNMENT;
  const header = Buffer.alloc(8 + length, ' ');
  header.writeBigUInt64LE(BigInt(length));
  text.copy(header, 8);
  return header;
}
