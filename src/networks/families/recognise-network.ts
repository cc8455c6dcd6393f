/** Recognises torchvision's networks by the keys and dims of their state dicts. */
import { isComputed, type Network } from '../network.js';
import { writeNetwork, type Architecture } from '../architecture.js';
import { ARCHITECTURES } from './all-families.js';

/** Counts batches while torch trains; no network computes with it. */
export const COUNTER: RegExp = /(?:^|\.)num_batches_tracked$/;

type SizedTensors = ReadonlyMap<string, { readonly dims: readonly number[] }>;

/** What a recognised network tells that its state dict does not. */
export interface KnownNetwork {
  /** torchvision's name. */
  readonly name: string;
  /** The epsilon of a BatchNorm by the path of its module. */
  readonly epsilons: ReadonlyMap<string, number>;
  /** Keys that only training uses, such as those of auxiliary classifiers. */
  readonly trainingOnly: RegExp | undefined;
}

/** Finds the network that has exactly these keys with these dims, if there is one. The classifier may have any size. */
export function recogniseNetwork(state: SizedTensors): KnownNetwork | undefined {
  for (const [name, architecture] of ARCHITECTURES) {
    const network = writeNetwork(architecture, 'input');
    if (!isOf(network, architecture, state)) continue;
    const epsilons = network.nodes.flatMap(({ opType, inputs, attributes }): [string, number][] => {
      const epsilon = attributes?.['epsilon'];
      const isNorm = opType === 'BatchNormalization' && typeof epsilon === 'object' && 'float' in epsilon;
      return isNorm ? [[inputs[1]!.replace(/\.weight$/, ''), epsilon.float]] : [];
    });
    return { name, epsilons: new Map(epsilons), trainingOnly: architecture.trainingOnly };
  }
  return undefined;
}

function isOf({ parameters }: Network, { trainingOnly }: Architecture, state: SizedTensors): boolean {
  for (const parameter of parameters.values()) {
    const given = state.get(parameter.key);
    const fits = given
      ? parameter.isHead || String(given.dims) === String(parameter.dims)
      : isComputed(parameter);
    if (!fits) return false;
  }
  return [...state.keys()].every(
    (key) => parameters.has(key) || COUNTER.test(key) || trainingOnly?.test(key) === true,
  );
}
