/** The class, register and patch tokens of a model's values, from its graph and the `config.json` beside it. */
import { dirname, join } from 'node:path';
import { isPlainObject } from '../../../base/checks.js';
import { oncePer } from '../../../base/once-per.js';
import { readJson } from '../../../base/read-json.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { readConstants } from '../../../onnx/graph/read-constants.js';
import { followTokens, type TokenFlow } from '../../../onnx/graph/token-flow.js';
import { findTokenParts, type TokenParts } from '../../../onnx/graph/token-parts.js';
import { followPlaces, type FindPlaces } from '../../../onnx/graph/token-places.js';
import { imageSize } from '../../../onnx/graph/image-axes.js';
import type { TokenPlaces } from '../../../onnx/graph/places.js';
import type { Size } from '../../../onnx/graph/rewrite/token-grid.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import type { Dim } from '../../../onnx/file/wire/schema.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { modelInternals, type ModelState } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';

/** {@link findTokenParts} of a value of a model. The graph is walked once. */
export function tokensOf(model: OnnxModel, value: Value, dims: readonly Dim[] | null): TokenParts | null {
  if (dims?.length !== 3) return null;
  const state = modelInternals.of(model);
  return findTokenParts(value, dims, flowOf(state), statedRegisters(state));
}

const flowOf: (state: ModelState) => TokenFlow = oncePer((state) =>
  state.readNow((source) => followTokens(state.graph, readConstants(new WireReader(source)))),
);

/**
 * Where the patches of a photo are among a value's tokens, if the file states its size or `measured` does: {@link FindPlaces}. The graph is
 * walked once for each size.
 */
export function placesOf(model: OnnxModel, value: Value, measured?: Size): TokenPlaces | 'moved' | null {
  const state = modelInternals.of(model);
  const size = measured ?? imageSize(state.graph);
  if (!size) return null;
  const walks = walksOf(state);
  const key = size.join('×');
  const walk =
    walks.get(key) ??
    state.readNow((source) => followPlaces(state.graph, readConstants(new WireReader(source)), size));
  walks.set(key, walk);
  return walk(value);
}

const ofTensors = new WeakMap<object, (size: Size | undefined) => TokenPlaces | 'moved' | null>();

/** Remembers which value a tensor holds, for {@link placesOfTensor}. */
export function rememberValue(tensor: Tensor, model: OnnxModel, value: Value): void {
  if (tensor.dims.length === 3) ofTensors.set(tensor, (size) => placesOf(model, value, size));
}

/** {@link placesOf} tokens that a run gave; null for those that are not known, and for other numbers of tokens. */
export function placesOfTensor(
  tensor: object,
  tokens: number,
  size: Size | undefined,
): TokenPlaces | 'moved' | null {
  const places = ofTensors.get(tensor)?.(size) ?? null;
  return places === 'moved' || places?.count === tokens ? places : null;
}

const walksOf: (state: ModelState) => Map<string, FindPlaces> = oncePer(() => new Map());

/** The number of register tokens that the model's `config.json` states, in its folder or the one above. */
const statedRegisters: (state: ModelState) => number | undefined = oncePer(({ path }) => {
  if (path === undefined) return undefined;
  for (const folder of [dirname(path), dirname(dirname(path))]) {
    const config = readConfig(join(folder, 'config.json'));
    if (!isPlainObject(config)) continue;
    const vision = isPlainObject(config['vision_config']) ? config['vision_config'] : {};
    const count = config['num_register_tokens'] ?? vision['num_register_tokens'];
    return Number.isSafeInteger(count) ? (count as number) : undefined;
  }
  return undefined;
});

/** A file that cannot be read states nothing: what it could have proven is then reported as unproven. */
function readConfig(path: string): unknown {
  try {
    return readJson(path, (reason, cause) => new Error(reason, { cause }));
  } catch {
    return undefined;
  }
}
