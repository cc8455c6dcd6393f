/** Which BatchNorm of a state dict was folded into which layer. */
import type { FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import { joinPath, splitPath } from '../../../onnx/graph/module-path.js';
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
 * @param candidatesOf - The norms that may have been folded into a layer, as far as dims tell.
 * @returns The norm of each layer that has exactly one possible.
 */
export function matchNorms(
  layers: readonly FoldedLayer[],
  state: StateValues,
  candidatesOf: (layer: FoldedLayer) => readonly string[],
): Map<FoldedLayer, string> {
  const matched = new Map<FoldedLayer, string>();
  for (const layer of layers) if (layer.isProven) matched.set(layer, layer.norms[0]!);
  for (const choose of BY_STRUCTURE) takeSingle(matched, layers, candidatesOf, state, choose);
  return matched;
}

/**
 * The same where values leave few candidates: a single one is right, and structure tells several apart.
 *
 * @param taken - The norms of layers that are known.
 */
export function matchFitting(
  layers: readonly FoldedLayer[],
  state: StateValues,
  candidatesOf: (layer: FoldedLayer) => readonly string[],
  taken: ReadonlyMap<FoldedLayer, string>,
): Map<FoldedLayer, string> {
  const matched = new Map(taken);
  // Each norm that is found leaves fewer for the others.
  for (let before = -1; before !== matched.size;) {
    before = matched.size;
    for (const choose of [bySequence, byParent, byOrder, byValue])
      takeSingle(matched, layers, candidatesOf, state, choose);
  }
  return matched;
}

/** Takes the norm of each open layer that a rule chooses alone, and for no other layer. */
function takeSingle(
  matched: Map<FoldedLayer, string>,
  layers: readonly FoldedLayer[],
  candidatesOf: (layer: FoldedLayer) => readonly string[],
  state: StateValues,
  choose: Rule,
): void {
  const taken = new Set(matched.values());
  const choices = layers
    .filter((layer) => !matched.has(layer))
    .map((layer) => {
      const open = candidatesOf(layer).filter((norm) => !taken.has(norm));
      return { layer, norms: choose(layer, open, state) };
    });
  for (const { layer, norms } of choices) {
    const [norm] = norms;
    const isWanted = choices.some((other) => other.layer !== layer && other.norms.includes(norm!));
    if (norms.length === 1 && !isWanted) matched.set(layer, norm!);
  }
}

/** Chooses among the candidates of a layer. */
type Rule = (layer: FoldedLayer, candidates: readonly string[], state: StateValues) => readonly string[];

const BY_STRUCTURE: readonly Rule[] = [byName, bySequence, byParent, byOrder];

function byValue(_: FoldedLayer, candidates: readonly string[]): readonly string[] {
  return candidates;
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
