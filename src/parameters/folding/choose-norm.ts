/** Which BatchNorm of a state dict was folded into which layer. */
import { channelsOf, type FoldedLayer } from '../../graph/parameters/folded-layer.js';
import { joinPath, splitPath } from '../../graph/module-path.js';
import type { StateValues } from './state-value.js';

/** The paths of norms in a state dict that have so many channels, in its order. */
export function normsOf(state: StateValues, channels: number): string[] {
  const suffix = '.running_var';
  return [...state].flatMap(([key, { dims }]) =>
    key.endsWith(suffix) && dims.length === 1 && dims[0] === channels ? [key.slice(0, -suffix.length)] : [],
  );
}

/**
 * Matches folded layers with norms by structure: what the file says, then how the names of the two correspond, then the order of the
 * state dict, where each norm follows its layer.
 *
 * @param isPresent - Whether the graph still has a node of a norm, so that it was not folded.
 * @returns The norm of each layer that has exactly one possible.
 */
export function matchNorms(
  layers: readonly FoldedLayer[],
  state: StateValues,
  isPresent: (norm: string) => boolean,
): Map<FoldedLayer, string> {
  const matched = new Map<FoldedLayer, string>();
  const taken = new Set<string>();
  const take = (layer: FoldedLayer, norm: string): void => {
    matched.set(layer, norm);
    taken.add(norm);
  };
  const open = (): FoldedLayer[] => layers.filter((layer) => !matched.has(layer));
  const candidates = (layer: FoldedLayer): string[] =>
    normsOf(state, channelsOf(layer)).filter((norm) => !taken.has(norm) && !isPresent(norm));
  for (const layer of layers) if (layer.isProven) take(layer, layer.norms[0]!);
  for (const choose of [byName, bySequence, byParent, byOrder]) {
    const choices = open().map((layer) => ({ layer, norms: choose(layer, candidates(layer), state) }));
    for (const { layer, norms } of choices) {
      const [norm] = norms;
      const isWanted = choices.some((other) => other.layer !== layer && other.norms.includes(norm!));
      if (norms.length === 1 && !isWanted) take(layer, norm!);
    }
  }
  return matched;
}

/** `conv1` and `bn1`. */
function byName({ norms }: FoldedLayer, candidates: readonly string[]): string[] {
  return candidates.filter((norm) => norms.includes(norm));
}

/** `downsample.0` and `downsample.1`: in a Sequential, the norm is the next child. */
function bySequence({ layer }: FoldedLayer, candidates: readonly string[]): string[] {
  const [parent, atom] = splitPath(layer);
  return /^\d+$/.test(atom)
    ? candidates.filter((norm) => norm === joinPath(parent, String(Number(atom) + 1)))
    : [];
}

/** The only norm of the same parent that is left. */
function byParent({ layer }: FoldedLayer, candidates: readonly string[]): string[] {
  const [parent] = splitPath(layer);
  return candidates.filter((norm) => splitPath(norm)[0] === parent);
}

/** The norm whose tensors follow those of the layer, if each norm of the parent follows a layer. */
function byOrder({ layer }: FoldedLayer, candidates: readonly string[], state: StateValues): string[] {
  const [parent] = splitPath(layer);
  const modules = [...new Set([...state.keys()].map((key) => splitPath(key)[0]))];
  const isNorm = (path: string | undefined): boolean =>
    path !== undefined && state.has(`${path}.running_var`);
  const siblings = modules.filter((path) => isNorm(path) && splitPath(path)[0] === parent);
  const alternates = siblings.every((norm) => {
    const before = modules[modules.indexOf(norm) - 1];
    return before !== undefined && !isNorm(before) && splitPath(before)[0] === parent;
  });
  const next = modules[modules.indexOf(layer) + 1];
  return alternates ? candidates.filter((norm) => norm === next) : [];
}
