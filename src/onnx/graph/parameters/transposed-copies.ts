/**
 * Matrices that may be transposed copies of a parameter. Some networks read a matrix as it is and transposed (tied embeddings, distances to
 * prototypes). If the exporter folded the transposition, the file has it twice. Only names and structure are read; values prove it.
 */
import type { Value } from '../graph.js';
import { splitPath } from '../module-path.js';
import { isFloatType } from '../../file/wire/schema.js';
import type { GraphParameters, ParameterUse, UnnamedSite } from './find-parameters.js';
import { moduleOf } from './find-parameters.js';
import { calledOnce, isMadeUp } from './parameter-names.js';

/** A matrix and the one that may be its transposed copy. */
export interface TransposedCopy {
  /** The parameter's name in torch. */
  readonly parameter: string;
  readonly original: Value;
  readonly copy: Value;
  /** What the copy goes by in torch, if that is guessed from the module that reads it. */
  readonly guess: string | undefined;
  /** Whether the guess may be right: a layer whose weight is tied to the parameter. */
  readonly isTied: boolean;
  /** The paths of the modules that read the copy. */
  readonly modules: readonly string[];
}

/** The pairs whose dims fit, where the copy has no name that the file states. */
export function possibleCopies(parameters: GraphParameters): TransposedCopy[] {
  const { uses, unnamed } = parameters;
  const originals = new Map<string, Map<Value, ParameterUse[]>>();
  for (const use of uses) {
    const { initializer } = use.site;
    const shape = shapeOf(initializer);
    if (use.isGuess || shape === undefined || isMadeUp(initializer.name)) continue;
    const alike = originals.get(shape) ?? new Map<Value, ParameterUse[]>();
    originals.set(shape, alike.set(initializer, [...(alike.get(initializer) ?? []), use]));
  }
  const named = new Set(uses.filter(({ isGuess }) => !isGuess).map(({ site }) => site.initializer));
  const copies = new Map<Value, (ParameterUse | UnnamedSite)[]>();
  for (const reader of [...uses.filter(({ isGuess }) => isGuess), ...unnamed]) {
    const { initializer } = siteOfReader(reader);
    if (initializer.producer || named.has(initializer) || shapeOf(initializer) === undefined) continue;
    copies.set(initializer, [...(copies.get(initializer) ?? []), reader]);
  }
  return [...copies].flatMap(([copy, readers]) => {
    const alike = [...(originals.get(shapeOf(copy, true)!) ?? [])];
    return alike.flatMap(([original, ofOriginal]) => pairOf(original, ofOriginal, copy, readers, parameters));
  });
}

function pairOf(
  original: Value,
  ofOriginal: readonly ParameterUse[],
  copy: Value,
  readers: readonly (ParameterUse | UnnamedSite)[],
  { running }: GraphParameters,
): TransposedCopy[] {
  const parameter = ofOriginal[0]!.names[0]!;
  const modules = readers.map(({ node }) => calledOnce(moduleOf(node) ?? ''));
  const guess = readers.flatMap((reader) => ('names' in reader ? reader.names[0]! : []))[0];
  const isOwnCode = (module: string): boolean =>
    module === splitPath(parameter)[0] ||
    module === '' ||
    [...running].some((path) => path.startsWith(`${module}.`));
  const isTied = guess !== undefined && !modules.every(isOwnCode);
  // A layer's own weight is tied to that of an embedding, if to any.
  if (isTied && !ofOriginal.some(({ node }) => node.opType === 'Gather')) return [];
  return guess === parameter ? [] : [{ parameter, original, copy, guess, isTied, modules }];
}

/** The parameters of a graph in which the copies are further places that read their parameters. */
export function withCopies(parameters: GraphParameters, copies: readonly TransposedCopy[]): GraphParameters {
  if (copies.length === 0) return parameters;
  const known = new Map(copies.map((copy) => [copy.copy, copy]));
  const useOf = (reader: ParameterUse | UnnamedSite): ParameterUse => {
    const site = siteOfReader(reader);
    const names = [known.get(site.initializer)!.parameter];
    const { node } = reader;
    const base = {
      node,
      site,
      kind: 'parameter',
      isGuess: false,
      spelled: undefined,
      isCertain: true,
    } as const;
    return { ...base, names, perm: [1, 0] };
  };
  const isKnown = (reader: ParameterUse | UnnamedSite): boolean =>
    known.has(siteOfReader(reader).initializer);
  const computing = new Map<string, ReadonlySet<Value>>();
  for (const [module, constants] of parameters.computing) {
    const open = [...constants].filter((constant) => !known.has(constant));
    if (open.length > 0) computing.set(module, new Set(open));
  }
  return {
    ...parameters,
    uses: [
      ...parameters.uses.map((use) => (isKnown(use) ? useOf(use) : use)),
      ...parameters.unnamed.filter(isKnown).map(useOf),
    ],
    unnamed: parameters.unnamed.filter((site) => !isKnown(site)),
    computing,
  };
}

function siteOfReader(reader: ParameterUse | UnnamedSite): UnnamedSite | ParameterUse['site'] {
  return 'names' in reader ? reader.site : reader;
}

/** The type and the dims of a matrix of floats, as it is or transposed; undefined for other tensors. */
function shapeOf({ initializer }: Value, isTransposed = false): string | undefined {
  const { elemType, dims } = initializer!;
  if (dims.length !== 2 || !isFloatType(elemType)) return undefined;
  return String([elemType, ...(isTransposed ? dims.toReversed() : dims)]);
}
