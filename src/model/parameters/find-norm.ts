/** Finds the norm and the epsilon that went into each folded layer: by structure, and by value where the present weights are known. */
import { findParameters } from '../../graph/parameters/find-parameters.js';
import type { Site } from '../../graph/parameters/site.js';
import { channelsOf, type FoldedLayer } from '../../graph/parameters/folded-layer.js';
import { readNodeMetadata } from '../../onnx/scan-graph.js';
import { ELEMENT_BITS } from '../../onnx/schema.js';
import { WireReader } from '../../onnx/wire.js';
import { permute } from '../../tensor/permute.js';
import { toFloat64 } from '../encode-values.js';
import type { ModelState } from '../model-state.js';
import { readInitializer } from '../read-initializer.js';
import { matchNorms, normsOf } from './choose-norm.js';
import { foldLayer, foldedKeys } from './fold-layer.js';
import { type StateValue } from './state-values.js';

type State = ReadonlyMap<string, StateValue>;

export interface FoundNorm {
  /** Undefined if nothing proves which norm it was. */
  readonly norm: string | undefined;
  readonly epsilon: number;
  /** Paths of norms that fit. */
  readonly candidates: readonly string[];
}

/** torch.nn.BatchNorm2d's default first, then those of other networks (MobileNetV3, EfficientNetV2, Inception; TensorFlow's ports). */
const EPSILONS = [1e-5, 1e-3, 1e-6, 1e-4, 2e-5, 1e-2, 1e-12];
/** The largest difference to the file's weights, over their largest value: float32 rounds both. */
const TOLERANCE = 1e-5;
const HALF_TOLERANCE = 1e-2;

export class NormFinder {
  readonly #model: ModelState;
  readonly #state: State;
  readonly #reference: State | undefined;
  readonly #epsilon: number | undefined;

  constructor(model: ModelState, state: State, reference: State | undefined, epsilon: number | undefined) {
    this.#model = model;
    this.#state = state;
    this.#reference = reference;
    this.#epsilon = epsilon;
  }

  async find(layers: readonly FoldedLayer[]): Promise<ReadonlyMap<FoldedLayer, FoundNorm>> {
    const { uses } = findParameters(this.#model.graph);
    const present = new Set(uses.flatMap(({ names }) => names));
    const isPresent = (norm: string): boolean => present.has(`${norm}.running_mean`);
    const matched = matchNorms(layers, this.#reference ?? this.#state, isPresent);
    const found = new Map<FoldedLayer, FoundNorm>();
    for (const layer of layers) {
      const known = matched.get(layer);
      const candidates = normsOf(this.#reference ?? this.#state, channelsOf(layer)).filter(
        (norm) => !isPresent(norm),
      );
      found.set(
        layer,
        this.#reference
          ? await this.#prove(layer, known, candidates, this.#reference)
          : { norm: known, epsilon: await this.#statedEpsilon(layer), candidates },
      );
    }
    return found;
  }

  /** The epsilon that dynamo's exporter wrote down, else the given one, else torch's default. */
  async #statedEpsilon({ node }: FoldedLayer): Promise<number> {
    const call = await this.#model.withSource((source) =>
      readNodeMetadata(new WireReader(source), node.scanned.field, 'pkg.torch.onnx.fx_node'),
    );
    const stated = /batch_norm.*,\s*([\d.e-]+)\s*(?:,\s*(?:True|False))?\),\s*kwargs/s.exec(call ?? '')?.[1];
    return stated === undefined ? (this.#epsilon ?? EPSILONS[0]!) : Number(stated);
  }

  /** The norm and the epsilon with which the reference gives the file's weights. */
  async #prove(
    layer: FoldedLayer,
    likeliest: string | undefined,
    candidates: readonly string[],
    reference: State,
  ): Promise<FoundNorm> {
    const ordered = [...new Set([...(likeliest === undefined ? [] : [likeliest]), ...candidates])];
    for (const norm of ordered) {
      if (foldedKeys(layer, norm).required.some((key) => !reference.has(key))) continue;
      for (const epsilon of EPSILONS)
        if (await this.#gives(layer, norm, epsilon, reference)) return { norm, epsilon, candidates };
    }
    return { norm: undefined, epsilon: NaN, candidates };
  }

  async #gives(layer: FoldedLayer, norm: string, epsilon: number, reference: State): Promise<boolean> {
    const made = await foldLayer(layer, norm, reference, epsilon);
    const inFile = layer.perm ? permute(made.weight, layer.perm) : made.weight;
    return (
      (await this.#isInFile(layer.weight, inFile.data)) &&
      (layer.bias === undefined || (await this.#isInFile(layer.bias, made.bias.data)))
    );
  }

  async #isInFile({ initializer }: Site, values: Float64Array): Promise<boolean> {
    const tensor = initializer.initializer!;
    const now = toFloat64(await readInitializer(this.#model, tensor));
    const largest = now.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const tolerance = largest * (ELEMENT_BITS.get(tensor.elemType)! < 32 ? HALF_TOLERANCE : TOLERANCE);
    return now.length === values.length && now.every((value, i) => Math.abs(value - values[i]!) <= tolerance);
  }
}
