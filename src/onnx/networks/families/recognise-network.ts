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
  /** Keys that the graph does not use, such as those of auxiliary classifiers. */
  readonly unusedKeys: RegExp | undefined;
}

/** What recognition needs of a network, without its nodes. */
interface Signature extends KnownNetwork {
  readonly parameters: Network['parameters'];
}

/** Writing all networks takes 0.3 s, and they never change. */
const signatures = new Map<string, Signature>();

function signatureOf(name: string, architecture: Architecture): Signature {
  const known = signatures.get(name);
  if (known) return known;
  const { parameters, nodes } = writeNetwork(architecture, 'input');
  const epsilons = nodes.flatMap(({ opType, inputs, attributes }): [string, number][] => {
    const epsilon = attributes?.['epsilon'];
    const isNorm = opType === 'BatchNormalization' && typeof epsilon === 'object' && 'float' in epsilon;
    return isNorm ? [[inputs[1]!.replace(/\.weight$/, ''), epsilon.float]] : [];
  });
  const { unusedKeys } = architecture;
  const signature = { name, epsilons: new Map(epsilons), unusedKeys, parameters };
  signatures.set(name, signature);
  return signature;
}

/**
 * Finds the network that has exactly these keys with these dims, if there is one. The classifier may have any size. Detectors are left out:
 * their keys do not prove the epsilons of their norms.
 */
export function recogniseNetwork(state: SizedTensors): KnownNetwork | undefined {
  for (const [name, architecture] of ARCHITECTURES) {
    if (architecture.task === 'detection') continue;
    const signature = signatureOf(name, architecture);
    if (isOf(signature, state)) return signature;
  }
  return undefined;
}

function isOf({ parameters, unusedKeys }: Signature, state: SizedTensors): boolean {
  for (const parameter of parameters.values()) {
    const given = state.get(parameter.key);
    const fits = given
      ? parameter.isHead || String(given.dims) === String(parameter.dims)
      : isComputed(parameter);
    if (!fits) return false;
  }
  return [...state.keys()].every(
    (key) => parameters.has(key) || COUNTER.test(key) || unusedKeys?.test(key) === true,
  );
}
