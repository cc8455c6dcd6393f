/** Proving by a reference which keys lie in tensors whose names an exporter lost. */
import { groupBy } from '../../../base/group-by.js';
import { oncePer } from '../../../base/once-per.js';
import type { Value } from '../../../onnx/graph/graph.js';
import type { GraphParameters, UnnamedSite } from '../../../onnx/graph/parameters/find-parameters.js';
import { encodeValues, fitsType, toFloat64 } from '../../../run/model/open/encode-values.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializer } from '../../../run/model/open/read-initializer.js';
import { elementCount, makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import type { StateValue, StateValues } from '../folding/state-value.js';
import { isEqual } from '../dicts/state-values.js';
import { ambiguous } from './load-errors.js';
import { isMoved, isNear, isSameAxes, nameAt, type PlacedKey } from './open-sites.js';

/** What places are proven with. */
export interface Evidence {
  readonly model: ModelState;
  readonly parameters: GraphParameters;
  readonly state: StateValues;
  readonly reference: StateValues;
}

/** Weights have no more; others are moved by a reshape alone. */
const MOST_AXES = 5;

/** A key whose present values a tensor has. */
type Holder = Pick<PlacedKey, 'key' | 'perm'>;

/**
 * Finds the keys of tensors: the reference's values in the same order, under any dims, or with their axes in another order. Values that
 * are all equal prove only a key beside the node that reads them.
 *
 * @param leftover - Keys that have no place yet; they come before others with the same values.
 * @throws {@link TapirError} `STATE_AMBIGUOUS` if several keys have a tensor's values, differ now, and nothing tells which one it is.
 */
export async function placeByValue(
  sites: readonly UnnamedSite[],
  leftover: ReadonlySet<string>,
  evidence: Evidence,
): Promise<PlacedKey[]> {
  const { parameters, state } = evidence;
  const placed: PlacedKey[] = [];
  for (const [value, readers] of groupBy(sites, ({ initializer }) => initializer)) {
    if (!isMoved(value)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
    const { holders, isVaried } = await holdersOf(value, evidence);
    const keys = holders.map(({ key }) => key);
    for (const site of readers) {
      const named = nameAt(site, keys);
      const near = holders.filter(({ key }) => isNear(site, key, parameters));
      const fitting = near.length > 0 || !isVaried ? near : holders;
      const open = fitting.find(({ key }) => leftover.has(key));
      const best = holders.find(({ key }) => key === named) ?? open ?? fitting[0];
      if (!best) continue;
      if (best.key !== named)
        for (const { key } of fitting)
          // oxlint-disable-next-line no-await-in-loop -- few keys have the same values
          if (!(await isEqual(state.get(key)!, state.get(best.key)!))) throw ambiguous(best.key, keys);
      placed.push({ site, ...best, isNamed: best.key === named });
    }
  }
  return placed;
}

/** The keys whose present values a tensor may hold, and whether its elements differ. */
async function holdersOf(
  { name, initializer }: Value,
  { model, state, reference }: Evidence,
): Promise<{ readonly holders: readonly Holder[]; readonly isVaried: boolean }> {
  const { dims, elemType } = initializer!;
  const held = await readInitializer(model, initializer!);
  const bytes = encodeValues(held, elemType, null);
  const elements = toFloat64(held);
  const isVaried = elements.some((element) => element !== elements[0]);
  // `x * 0.3` and `1 / x` have such values, too. TorchScript renames a tensor only for other dims, or other values.
  const isTrivial = !isVaried && [-1, 0, 1].includes(elements[0]!);
  const isComputed = isTrivial && name.startsWith('onnx::');
  const holders: Holder[] = [];
  for (const [key, value] of reference) {
    const isFitting = elementCount(value.dims) === elementCount(dims) && fitsType(value.dtype, elemType);
    if (!isFitting || !state.has(key) || (isComputed && String(value.dims) === String(dims))) continue;
    // No order of axes moves the first element and the last one.
    // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
    const [first, last] = (await endsOf(value)).map((end) => encodeValues(end, elemType, null));
    if (Buffer.compare(first!, bytes.subarray(0, first!.length)) !== 0) continue;
    if (Buffer.compare(last!, bytes.subarray(-last!.length)) !== 0) continue;
    // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
    const tensor = await value.read();
    const perm = ordersOf(value.dims, dims).find(
      (order) => Buffer.compare(encodeValues(tensor, elemType, order), bytes) === 0,
    );
    if (perm !== undefined) holders.push({ key, perm });
  }
  return { holders, isVaried };
}

/** The first element of a tensor and the last one. */
const endsOf = oncePer(async (value: StateValue): Promise<Tensor[]> => {
  const { dtype, data } = await value.read();
  return [data.slice(0, 1), data.slice(-1)].map((end) => makeTensor(dtype, [1], end as never));
});

/** The orders of axes that may give other dims: none, as for a reshape, then those that give them but for axes of 1. */
function ordersOf(from: readonly number[], to: readonly number[]): (readonly number[] | null)[] {
  let orders: number[][] = from.length > MOST_AXES ? [] : [[]];
  for (const _ of from)
    orders = orders.flatMap((order) =>
      [...from.keys()].filter((axis) => !order.includes(axis)).map((axis) => order.concat(axis)),
    );
  const given = (order: readonly number[]): number[] => order.map((axis) => from[axis]!);
  return [null, ...orders.filter((order) => order.length > 1 && isSameAxes(given(order), to))];
}
