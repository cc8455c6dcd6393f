/** The class, register and patch tokens of a model's values, from its graph and the `config.json` beside it. */
import { dirname, join } from 'node:path';
import { isPlainObject } from '../../../base/checks.js';
import { oncePer } from '../../../base/once-per.js';
import { readJson } from '../../../base/read-json.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { readConstants } from '../../../onnx/graph/read-constants.js';
import { followTokens, type TokenFlow } from '../../../onnx/graph/token-flow.js';
import { findTokenParts, type TokenParts } from '../../../onnx/graph/token-parts.js';
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
