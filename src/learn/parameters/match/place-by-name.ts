/** Keys of tensors whose names an exporter lost, without a reference: what names tell, then what elimination leaves. */
import type { GraphParameters, UnnamedSite } from '../../../onnx/graph/parameters/find-parameters.js';
import { calledOnce, parameterNames } from '../../../onnx/graph/parameters/parameter-names.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import type { StateValues } from '../folding/state-value.js';
import { around, isMoved, isSameAxes, nameAt, type PlacedKey } from './open-sites.js';

/**
 * Finds the keys of tensors that have their dims but for axes of 1. First comes the key that the node names, or the bias beside it. Else it
 * is the only key of the module that is left, if no other tensor could take it. Under the same dims, a name is lost only where values
 * changed.
 */
export function placeByName(
  sites: readonly UnnamedSite[],
  leftover: readonly string[],
  state: StateValues,
  parameters: GraphParameters,
): PlacedKey[] {
  const keys = [...state.keys()];
  const claims = sites.flatMap((site): PlacedKey[] => {
    const { module, initializer, reader } = site;
    const { dims } = initializer.initializer!;
    if (!isMoved(initializer)) return [];
    const fits = (key: string): boolean => isSameAxes(state.get(key)!.dims, dims);
    const named = nameAt(site, keys);
    if (named !== undefined && fits(named)) return [{ site, key: named, perm: null, isNamed: true }];
    // dynamo's exporter states a parameter that it moves itself.
    const isMovedHere = /^(tmp|val)(_\d+)?$/.test(initializer.name);
    if (module === undefined || isMovedHere || elementCount(dims) < 2) return [];
    const changed = leftover.filter((key) => fits(key) && String(state.get(key)!.dims) !== String(dims));
    const likely = parameterNames(reader.node, reader.slot, undefined, calledOnce(module), false);
    const own = changed.filter((key) => likely.includes(key));
    const left =
      own.length > 0 ? own : changed.filter((key) => around(key, parameters) === calledOnce(module));
    return left.map((key) => ({ site, key, perm: null, isNamed: false }));
  });
  const isOnly = ({ site, key, isNamed }: PlacedKey): boolean =>
    isNamed || claims.every((other) => (other.key === key) === (other.site.initializer === site.initializer));
  return claims.filter(isOnly);
}
