/** The inputs of a text tower: token ids, and what goes with them. */
import type { TensorInfo } from '../../../../onnx/tensor/tensor-info.js';
import type { TensorLike } from '../../../../onnx/tensor/tensor.js';
import { isTokenIds } from '../../../../run/model/token-ids.js';

/** What an input of a text tower holds. */
type Role = 'ids' | 'mask' | 'types' | 'positions';

/** Those beside the ids. */
const ROLES: readonly (readonly [role: Role, names: RegExp])[] = [
  ['mask', /^(?:attention_mask|text_attention_mask|mask)$/],
  ['types', /^token_type_ids$/],
  ['positions', /^position_ids$/],
];

/** The inputs of a text tower by what they hold. */
export interface TokenInputs {
  readonly ids: TensorInfo;
  readonly all: readonly { readonly role: Role; readonly input: TensorInfo }[];
  /** Inputs that are something else, such as pixels. */
  readonly others: readonly TensorInfo[];
}

/** Sorts the inputs of a model; undefined if the model takes no token ids. */
export function tokenInputsOf(inputs: readonly TensorInfo[]): TokenInputs | undefined {
  const all: { role: Role; input: TensorInfo }[] = [];
  const others: TensorInfo[] = [];
  for (const input of inputs) {
    const isTokens = (input.dtype === 'int64' || input.dtype === 'int32') && input.dims?.length === 2;
    const beside = isTokens ? ROLES.find(([, names]) => names.test(input.name))?.[0] : undefined;
    const role = isTokenIds(input) ? 'ids' : beside;
    if (role === undefined) others.push(input);
    else all.push({ role, input });
  }
  const ids = all.find(({ role }) => role === 'ids')?.input;
  return ids && { ids, all, others };
}

/** Token ids of a batch, with 1 for each token in `masks` and 0 for padding. All lists are equally long. */
export interface TokenBatch {
  readonly ids: readonly (readonly number[])[];
  readonly masks: readonly (readonly number[])[];
}

/** Makes the tensors of a batch, `[N, L]` each. */
export function tensorsOf({ all }: TokenInputs, { ids, masks }: TokenBatch): Record<string, TensorLike> {
  const rows = (role: Role): readonly (readonly number[])[] => {
    if (role === 'ids') return ids;
    if (role === 'mask') return masks;
    return ids.map((row) => row.map((_, i) => (role === 'positions' ? i : 0)));
  };
  return Object.fromEntries(all.map(({ role, input }) => [input.name, tensorOf(input, rows(role))]));
}

function tensorOf({ dtype }: TensorInfo, rows: readonly (readonly number[])[]): TensorLike {
  const dims = [rows.length, rows[0]!.length];
  const values = rows.flat();
  return dtype === 'int32'
    ? { dtype, dims, data: Int32Array.from(values) }
    : { dtype: 'int64', dims, data: BigInt64Array.from(values, BigInt) };
}
