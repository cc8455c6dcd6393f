/** The epsilon of a norm that no weights prove: that of norms of the same part of the network, or of a network that torchvision has. */
import { splitPath } from '../../../onnx/graph/module-path.js';
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { recogniseNetwork, type KnownNetwork } from '../../../onnx/networks/families/recognise-network.js';
import { readAttributes } from '../../../onnx/file/scan/attributes.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { contains, usualIn, type EpsilonRange } from './solve-epsilon.js';
import type { StateValues } from './state-value.js';

/** A folded norm, and what its layer proves. */
interface FoldedNorm {
  readonly norm: string | undefined;
  readonly stated: number | undefined;
  readonly range: EpsilonRange | undefined;
}

/** ONNX's default. */
const DEFAULT_EPSILON = 1e-5;
/** A node has it as float32: 0.0010000000474974513. */
const DIGITS = 6;

export class KnownEpsilons {
  readonly #model: ModelState;
  readonly #state: StateValues;
  readonly #folded: readonly FoldedNorm[];
  #nodes: Promise<ReadonlyMap<string, number>> | undefined;
  #network: { readonly known: KnownNetwork | undefined } | undefined;

  constructor(model: ModelState, state: StateValues, folded: readonly FoldedNorm[]) {
    this.#model = model;
    this.#state = state;
    this.#folded = folded;
  }

  /** The epsilon of a norm; undefined if nothing shows it. */
  async find(norm: string): Promise<number | undefined> {
    const nodes = await (this.#nodes ??= this.#readNodes());
    const network = this.#networkOf(nodes);
    return network ? network.epsilons.get(norm) : this.#ofPart(norm, nodes);
  }

  /** The network of the state dict, unless norms of the file have other epsilons. */
  #networkOf(nodes: ReadonlyMap<string, number>): KnownNetwork | undefined {
    if (this.#network) return this.#network.known;
    const network = recogniseNetwork(this.#state);
    const contradicts = (norm: string, hasOther: (epsilon: number) => boolean): boolean => {
      const epsilon = network?.epsilons.get(norm);
      return epsilon !== undefined && hasOther(epsilon);
    };
    const isOther =
      [...nodes].some(([norm, epsilon]) => contradicts(norm, (its) => its !== epsilon)) ||
      this.#folded.some((one) => one.norm !== undefined && contradicts(one.norm, (its) => !allows(one, its)));
    this.#network = { known: isOther ? undefined : network };
    return this.#network.known;
  }

  /**
   * The epsilon of the norms that were not folded, or whose weights prove it, in the same part of the network. Backbones and heads often have different ones:
   * the parts are the children of the innermost module that has all norms.
   */
  #ofPart(norm: string, nodes: ReadonlyMap<string, number>): number | undefined {
    const folded = this.#folded.filter((one) => one.norm !== undefined);
    const root = commonModule([...nodes.keys(), ...folded.map((one) => one.norm!)]);
    const partOf = (path: string): string | undefined => splitPath(path)[0].split('.')[root];
    const part = partOf(norm);
    const proven = folded.flatMap(({ norm: path, range }): [string, number][] => {
      const usual = range?.isProof ? usualIn(range) : [];
      return usual.length === 1 ? [[path!, usual[0]!]] : [];
    });
    const epsilons = new Set(
      [...nodes, ...proven].flatMap(([path, epsilon]) => (partOf(path) === part ? [epsilon] : [])),
    );
    const [epsilon] = epsilons;
    if (epsilon === undefined || epsilons.size > 1) return undefined;
    const isShared = folded.every((one) => partOf(one.norm!) !== part || allows(one, epsilon));
    return isShared ? epsilon : undefined;
  }

  /** Epsilons of the norms that have nodes, by path. */
  #readNodes(): Promise<ReadonlyMap<string, number>> {
    const { graph, withSource } = this.#model;
    const norms = findParameters(graph).uses.flatMap(({ node, names: [name] }): [string, typeof node][] =>
      node.opType === 'BatchNormalization' && name?.endsWith('.running_var')
        ? [[name.slice(0, -'.running_var'.length), node]]
        : [],
    );
    return withSource((source) => {
      const reader = new WireReader(source);
      return new Map(
        norms.map(([norm, { scanned }]) => {
          const epsilon = readAttributes(reader, scanned).get('epsilon')?.float ?? DEFAULT_EPSILON;
          return [norm, Number(epsilon.toPrecision(DIGITS))];
        }),
      );
    });
  }
}

function allows({ stated, range }: FoldedNorm, epsilon: number): boolean {
  if (stated !== undefined) return stated === epsilon;
  return !range || contains(range, epsilon);
}

/** The depth of the innermost module that has all of these modules. */
function commonModule(paths: readonly string[]): number {
  const [first, ...others] = paths.map((path) => {
    const [parent] = splitPath(path);
    return parent === '' ? [] : parent.split('.');
  });
  if (!first) return 0;
  const differs = first.findIndex((atom, i) => others.some((other) => other[i] !== atom));
  return differs < 0 ? first.length : differs;
}
