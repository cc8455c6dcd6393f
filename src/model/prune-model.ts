/** Model + request → a smaller model. */
import { realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { checkBoolean, checkOneOf, checkText, withDefaults, type Options } from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import type { Chunk } from '../onnx/chunk.js';
import { collectChunks, writeChunks } from '../onnx/emit.js';
import { WireReader } from '../onnx/wire.js';
import { externalTensors, planOf } from '../graph/rewrite/describe.js';
import { checkExternalLocations, locateExternal } from '../onnx/external-data.js';
import { layOutRewrite, type Naming } from '../graph/rewrite/lay-out.js';
import type { PrunePlan } from '../graph/rewrite/plan.js';
import type { Rewrite } from '../graph/rewrite/rewrite.js';
import { openModel, OnnxModel, stateOf, type ModelSource } from './open-model.js';
import { prepareRewrite, type Prepared } from './prepare.js';
import { saveInlined, saveRepacked } from './save-weights.js';
import { readReturnNodes, type ReturnNodes } from './return-nodes.js';
import { readRewriteOptions, REWRITE_DEFAULTS, type RewriteOptions } from './rewrite-options.js';

/** Options of {@link pruneModel}. */
export interface PruneOptions extends RewriteOptions {
  /**
   * Write outputs under the tensors' own names instead of the given keys, and so add no node.
   * @default false
   */
  readonly keepTensorNames: boolean;
  /**
   * Allow outputs that are sequences, maps or optionals: other runtimes can give them out, onnxruntime-node cannot.
   * @default false
   */
  readonly allowNonTensor: boolean;
  /**
   * State dtype and dims of every output in the written file, asking ONNX Runtime where the source does not say: some
   * checkers and runtimes want them.
   * @default false
   */
  readonly fillTypes: boolean;
  /**
   * Put the written graph in order for strict checkers: nodes in execution order and under distinct names, imports of unused
   * operator sets dropped. Nothing else is changed.
   * @default false
   */
  readonly tidy: boolean;
}

export const PRUNE_DEFAULTS: PruneOptions = {
  ...REWRITE_DEFAULTS,
  keepTensorNames: false,
  allowNonTensor: false,
  fillTypes: false,
  tidy: false,
};

/** Options of {@link PrunedModel.save}. */
export interface SaveOptions {
  /**
   * What becomes of weights in other files: `keep` leaves them where they are, `inline` copies those that are needed into the
   * written file, `repack` into one new file beside it, `NAME.onnx.data`.
   * @default 'keep'
   */
  readonly weights: 'keep' | 'inline' | 'repack';
}

export const SAVE_DEFAULTS: SaveOptions = { weights: 'keep' };

let preparedOf: (pruned: PrunedModel) => Prepared;

/**
 * A model cut down to what the requested values need. What is kept is copied from the source byte for byte.
 *
 * @remarks Nothing is held open; `bytes` and `save` read the source again and fail with `MODEL_CHANGED` if it changed.
 */
export class PrunedModel {
  readonly #prepared: Prepared;
  readonly #naming: Naming;
  readonly #chunks: readonly Chunk[];
  /** The model it was cut from. */
  readonly source: OnnxModel;
  /** What was kept, dropped and resolved. */
  readonly plan: PrunePlan;

  static {
    preparedOf = (pruned) => pruned.#prepared;
  }

  /** Use {@link pruneModel}. */
  constructor(prepared: Prepared, naming: Naming, chunks: readonly Chunk[]) {
    this.source = prepared.model;
    this.#prepared = prepared;
    this.#naming = naming;
    this.#chunks = chunks;
    const { folder } = stateOf(prepared.model);
    checkExternalLocations(externalTensors(prepared.rewrite.cut), folder);
    this.plan = planOf(prepared.rewrite, chunks);
  }

  /**
   * The pruned model as the bytes of an ONNX file. External weights stay where they are.
   *
   * @returns A new buffer of `plan.kept.bytes` bytes.
   * @throws {@link TapirError} `MODEL_CHANGED` if the source file changed since it was opened.
   */
  async bytes(): Promise<Uint8Array> {
    return stateOf(this.source).withSource((source) => collectChunks(source, this.#chunks));
  }

  /**
   * Writes the pruned model as a plain ONNX file, for any runtime: to a temporary name first, then renamed.
   *
   * @param path - File to write; one that exists is replaced.
   * @param given - See {@link SaveOptions}.
   * @throws {@link TapirError} `OUTPUT_UNWRITABLE`; `MODEL_CHANGED`; `EXTERNAL_DATA_ELSEWHERE` if the model has weights in
   * other files, they stay there, and `path` is in another folder; `MODEL_TOO_LARGE` if weights that go inside make it larger than
   * 2 GiB; `OUTPUT_EXISTS` if the file for repacked weights is there already; `EXTERNAL_DATA_UNSAFE`.
   */
  async save(path: string, given: Options<SaveOptions> = {}): Promise<void> {
    const { weights } = withDefaults(SAVE_DEFAULTS, given, 'save');
    const target = resolve(checkText('path', path));
    checkOneOf('weights', weights, ['keep', 'inline', 'repack']);
    const { withSource } = stateOf(this.source);
    checkNoWeights(this.source, this.plan, target);
    if (weights === 'keep' || this.plan.kept.externalFiles.length === 0) {
      checkSameFolder(this.source, this.plan.kept.externalFiles, target);
      await withSource((source) => writeChunks(source, this.#chunks, target));
    } else {
      const save = weights === 'inline' ? saveInlined : saveRepacked;
      await withSource((source) => save(source, this.#prepared, this.#naming, target));
    }
  }
}

export { preparedOf };

/** What a pruned model was made into. */
export function rewriteOf(pruned: PrunedModel): Rewrite {
  return preparedOf(pruned).rewrite;
}

/** To write over a file with the model's own weights would lose them. */
function checkNoWeights(model: OnnxModel, { kept, dropped }: PrunePlan, target: string): void {
  const { folder } = stateOf(model);
  if (folder === undefined) return;
  const isWeights = [...kept.externalFiles, ...dropped.externalFiles].some((file) =>
    sameFile(locateExternal(folder, file), target),
  );
  if (!isWeights) return;
  const reason = 'it holds weights of the model itself';
  throw new TapirError('OUTPUT_UNWRITABLE', `cannot write "${target}": ${reason}; choose another name`, {
    details: { path: target, reason },
  });
}

function checkSameFolder(model: OnnxModel, files: readonly string[], target: string): void {
  const { folder } = stateOf(model);
  if (files.length === 0 || (folder !== undefined && sameFile(folder, dirname(target)))) return;
  const where = folder ?? 'unknown: the model was opened from bytes';
  throw new TapirError(
    'EXTERNAL_DATA_ELSEWHERE',
    `"${target}" would not find its weights, which lie in ${files.map((file) => `"${file}"`).join(', ')} in the folder "${where}"; save it into that folder, or copy these files along`,
    { details: { path: target, folder: where, files } },
  );
}

function sameFile(a: string, b: string): boolean {
  try {
    return realpathSync.native(a) === realpathSync.native(b);
  } catch {
    return false; // One of them does not exist.
  }
}

/**
 * Cuts a model down to the nodes and weights that the named values need, and makes those its outputs.
 *
 * A name is a tensor name, a node name (`node:k` for its k-th output), or a module path such as `layer4`, which means the
 * last node under it; `tensor:`, `node:` and `module:` in front choose one reading. Each name is resolved by itself.
 *
 * @param model - A model, or where to open one.
 * @param returnNodes - Names, or names mapped to output keys. A list keeps tensor names in the written file; for a key, an
 * Identity node is added that gives the output its name.
 * @param given - See {@link PruneOptions}.
 * @returns The pruned model: its plan at once, its bytes or file on demand.
 * @throws {@link TapirError} `NAME_NOT_FOUND` (all unknown names with the nearest ones), `NAME_AMBIGUOUS`, `NAME_FOLDED`,
 * `NAME_INSIDE_BODY`; `OUTPUT_NOT_TENSOR`; `OUTPUT_NAME_TAKEN`; `GRAPH_INVALID`; `EXTERNAL_DATA_UNSAFE`; those of {@link openModel}.
 *
 * @example Keep the part of a ResNet-50 that computes `layer1`, `[N, 256, 56, 56]` float32.
 * ```ts
 * import { pruneModel } from 'onnx-tapir';
 *
 * const pruned = await pruneModel('resnet50.onnx', { layer1: 'features' });
 * console.log(pruned.plan.resolved[0]?.tensor); // '/layer1/layer1.2/relu_2/Relu_output_0'
 * await pruned.save('resnet50-layer1.onnx');
 * ```
 */
export async function pruneModel(
  model: OnnxModel | ModelSource,
  returnNodes: ReturnNodes,
  given: Options<PruneOptions> = {},
): Promise<PrunedModel> {
  const options = withDefaults(PRUNE_DEFAULTS, given, 'pruneModel');
  const keepTensorNames = checkBoolean('keepTensorNames', options.keepTensorNames);
  const allowNonTensor = checkBoolean('allowNonTensor', options.allowNonTensor);
  const fillTypes = checkBoolean('fillTypes', options.fillTypes);
  const tidy = checkBoolean('tidy', options.tidy);
  const { pairs, keyed } = readReturnNodes(returnNodes);
  const setup = readRewriteOptions(
    options,
    pairs.map((pair) => pair.key),
  );
  const opened = model instanceof OnnxModel ? model : await openModel(model);
  const prepared = await prepareRewrite(opened, {
    ...setup,
    outputs: pairs,
    allowNonTensor,
    fillTypes,
    tidy,
  });
  const naming = keyed && !keepTensorNames ? 'keys' : 'tensors';
  const chunks = await stateOf(opened).withSource((source) =>
    layOutRewrite(prepared.rewrite, naming, new WireReader(source)),
  );
  return new PrunedModel(prepared, naming, chunks);
}
