/** Model + request → a smaller model. */
import { realpathSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { checkBoolean, checkText, withDefaults, type Given } from '../checks.js';
import { TapirError } from '../errors.js';
import { resolveNames } from '../graph/names.js';
import { digestSource } from '../onnx/digest.js';
import { collectChunks, writeChunks, type Chunk } from '../onnx/emit.js';
import { checkExternalFiles } from '../onnx/external-data.js';
import { externalTensors, layOutCut, planOf, type Naming } from '../rewrite/edit.js';
import type { PrunePlan } from '../rewrite/plan.js';
import { cutGraph, type Cut } from '../rewrite/prune.js';
import { openModel, OnnxModel, stateOf, type ModelSource } from './open-model.js';
import { readReturnNodes, type ReturnNodes } from './return-nodes.js';

/** Options of {@link pruneModel}. */
export interface PruneOptions {
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
}

export const PRUNE_DEFAULTS: PruneOptions = { keepTensorNames: false, allowNonTensor: false };

let cutOf: (pruned: PrunedModel) => Cut;

/**
 * A model cut down to what the requested values need. What is kept is copied from the source byte for byte.
 *
 * @remarks Nothing is held open; `bytes` and `save` read the source again and fail with `MODEL_CHANGED` if it changed.
 */
export class PrunedModel {
  readonly #cut: Cut;
  readonly #chunks: readonly Chunk[];
  /** The model it was cut from. */
  readonly source: OnnxModel;
  /** What was kept, dropped and resolved. */
  readonly plan: PrunePlan;

  static {
    cutOf = (pruned) => pruned.#cut;
  }

  /** Use {@link pruneModel}. */
  constructor(source: OnnxModel, cut: Cut, naming: Naming) {
    this.source = source;
    this.#cut = cut;
    this.#chunks = layOutCut(cut, naming);
    this.plan = planOf(cut, this.#chunks);
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
   * @throws {@link TapirError} `OUTPUT_UNWRITABLE`; `MODEL_CHANGED`; `EXTERNAL_DATA_ELSEWHERE` if the model has weights in
   * other files and `path` is in another folder than they are.
   */
  async save(path: string): Promise<void> {
    const target = resolve(checkText('path', path));
    checkSameFolder(this.source, this.plan.kept.externalFiles, target);
    await stateOf(this.source).withSource((source) => writeChunks(source, this.#chunks, target));
  }
}

export { cutOf };

function checkSameFolder(model: OnnxModel, files: readonly string[], target: string): void {
  const { folder } = stateOf(model);
  if (files.length === 0 || (folder !== undefined && sameFolder(folder, dirname(target)))) return;
  const where = folder ?? 'unknown: the model was opened from bytes';
  throw new TapirError(
    'EXTERNAL_DATA_ELSEWHERE',
    `"${target}" would not find its weights, which lie in ${files.map((file) => `"${file}"`).join(', ')} in the folder "${where}"; save it into that folder, or copy these files along`,
    { details: { path: target, folder: where, files } },
  );
}

function sameFolder(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b);
  } catch {
    return false; // The target's folder does not exist: writing will say so.
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
  given: Given<PruneOptions> = {},
): Promise<PrunedModel> {
  const options = withDefaults(PRUNE_DEFAULTS, given, 'pruneModel');
  checkBoolean('keepTensorNames', options.keepTensorNames);
  checkBoolean('allowNonTensor', options.allowNonTensor);
  const { pairs, keyed } = readReturnNodes(returnNodes);
  const opened = model instanceof OnnxModel ? model : await openModel(model);
  const { graph } = stateOf(opened);
  const resolved = resolveNames(
    graph,
    pairs.map((pair) => pair.request),
  );
  const outputs = resolved.map(({ request, value, why }, i) => ({ request, value, why, key: pairs[i]!.key }));
  const cut = cutGraph(graph, outputs, options.allowNonTensor);
  return new PrunedModel(opened, cut, keyed && !options.keepTensorNames ? 'keys' : 'tensors');
}

/** The files a session must find: checked to exist and to lie in the model's folder. Returns that folder if there are any. */
export function externalFolder(pruned: PrunedModel): string | undefined {
  const tensors = externalTensors(cutOf(pruned));
  const { folder } = stateOf(pruned.source);
  if (tensors.length === 0) return undefined;
  if (folder === undefined) {
    const [first] = tensors;
    const reason = 'the model was opened from bytes, so its folder is unknown';
    throw new TapirError(
      'EXTERNAL_DATA_UNSAFE',
      `the weights of "${first!.tensor}" lie in "${first!.location}", but ${reason}; open it by path`,
      {
        details: { location: first!.location, tensor: first!.tensor, reason },
      },
    );
  }
  checkExternalFiles(tensors, folder);
  return folder;
}

/** The bytes that a session is opened from: outputs under the tensors' own names. */
export async function sessionBytes(pruned: PrunedModel): Promise<Uint8Array> {
  const chunks = layOutCut(cutOf(pruned), 'tensors');
  return stateOf(pruned.source).withSource((source) => collectChunks(source, chunks));
}

/** What identifies a model file in records. */
export interface ModelIdentity {
  /** File name without folder, or "model bytes". */
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file, without its external weights. */
  readonly sha256: string;
  readonly externalFiles: readonly string[];
}

/** Identifies the model that was cut, by its content. */
export async function identifyModel(pruned: PrunedModel): Promise<ModelIdentity> {
  const { path, withSource } = stateOf(pruned.source);
  return withSource(async (source) => ({
    file: path === undefined ? source.label : basename(path),
    bytes: source.sizeBytes,
    sha256: await digestSource(source),
    externalFiles: pruned.plan.kept.externalFiles,
  }));
}
