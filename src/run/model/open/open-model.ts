/** Opening a model file: its nodes, tensors and names, without its weights. */
import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { givenFields, invalidOption, type Options } from '../../../base/checks.js';
import { defaultsOf, readOptions, text, type Fields } from '../../../base/options.js';
import { TapirError } from '../../../base/errors.js';
import { modelFile } from '../../../base/package.js';
import { buildGraph } from '../../../onnx/graph/build-graph.js';
import type { Graph } from '../../../onnx/graph/graph.js';
import { moduleTree } from '../../../onnx/graph/names/module-tree.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import { listNames, nameValues } from '../../../onnx/graph/names/name-list.js';
import { readNamesSidecar, sidecarPath } from '../../../onnx/file/names-sidecar.js';
import { scanModel } from '../../../onnx/file/scan/scan.js';
import {
  memorySource,
  openFileSource,
  reopenFileSource,
  type ByteSource,
} from '../../../onnx/file/wire/source.js';
import { chunkSource, type SourceChunk } from '../../../onnx/file/wire/chunk-source.js';
import type { Chunk } from '../../../onnx/file/wire/chunk.js';
import { EXPECTED_MODEL, modelInternals, type ModelState } from './model-state.js';
import { listParameters, type Parameter } from './named-parameters.js';
import { saveWhole, type SaveOptions } from './save-whole.js';
import { describeValue } from './value-info.js';
import type { TensorLike } from '../../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { replaceParameters } from './with-parameters.js';

/** Where a model comes from: a path, a `file:` URL, or the bytes themselves; `demo` is the small trained model of this package. */
export type ModelSource = string | URL | Uint8Array;

/** Options of {@link openModel}. */
export interface OpenOptions {
  /**
   * The file with the names of the source network (docs/names-sidecar.md): a path, `'auto'` for `MODEL.onnx.names.json` if that
   * exists, or `'ignore'` to derive names from the model alone.
   * @default 'auto'
   */
  readonly names: string;
}

export const OPEN_FIELDS: Fields<OpenOptions> = { names: text('auto') };

/** A node of a model, for listings. */
export interface NodeInfo {
  /** The name of the node; often empty. */
  readonly name: string;
  /** The ONNX operator, prefixed with its domain unless that is the default one. */
  readonly opType: string;
  /** The module of the source network that ran the node, where the file carries module paths; else null. */
  readonly module: string | null;
  readonly inputs: readonly string[];
  readonly outputs: readonly TensorInfo[];
  /** The name to request its result by, or null (see {@link getGraphNodeNames}). */
  readonly request: string | null;
  /** `data` depends on the values of an input, `shape` only on its size, `constant` on neither. */
  readonly role: 'data' | 'shape' | 'constant';
}

let createModel: (state: ModelState) => OnnxModel;

/**
 * An opened ONNX model: what the file holds, except its weights. No file stays open, so there is nothing to close.
 *
 * @remarks Immutable. A model opened from bytes keeps a view of them: leave them unchanged while you use the model.
 */
export class OnnxModel {
  readonly #graph: Graph;
  /** The path of the file, or "model bytes". */
  readonly label: string;
  /** The graph inputs that must be fed; initializers that the file also lists as inputs are left out. */
  readonly inputs: readonly TensorInfo[];
  /** The graph outputs, in the order of the file. */
  readonly outputs: readonly TensorInfo[];
  /** Version of the ONNX file format. */
  readonly irVersion: number;
  /** Operator-set version by domain; "" is the default domain. */
  readonly opsets: ReadonlyMap<string, number>;
  /** The program that wrote the file, with its version. */
  readonly producer: string;
  /** The names file in use (see {@link OpenOptions.names}), or null. */
  readonly names: string | null;
  #nodes: readonly NodeInfo[] | undefined;

  static {
    createModel = (state) => new OnnxModel(state);
  }

  private constructor(state: ModelState) {
    modelInternals.set(this, state);
    this.#graph = state.graph;
    const { model, inputs, outputs } = state.graph;
    this.label = model.label;
    this.inputs = inputs.map(describeValue);
    this.outputs = outputs.map(describeValue);
    this.irVersion = model.irVersion;
    this.opsets = model.opsets;
    this.producer = model.producer;
    this.names = state.graph.sidecar?.path ?? null;
  }

  /**
   * The parameters and buffers of the source network in execution order, with their names and how they lie in the file. Values are not
   * read. The same objects at every call, and for every model that was cut from this one.
   */
  namedParameters(): readonly Parameter[] {
    return listParameters(modelInternals.of(this));
  }

  /** The learnable tensors among {@link OnnxModel.namedParameters}. */
  parameters(): readonly Parameter[] {
    return this.namedParameters().filter(({ kind }) => kind === 'parameter');
  }

  /**
   * The same model with other values for some parameters. All other bytes are read from the file of this one.
   *
   * @param tensors - By the names of {@link OnnxModel.namedParameters}, in torch's layout. The weight and the bias of a classifier may
   * have another number of classes, if nothing but an output of the graph depends on it.
   * @throws {@link TapirError} `STATE_MISMATCH` for a name that the model does not have, or a tensor of other dims or another dtype;
   * `PARAMETER_FOLDED` for a layer with a norm folded into it; `INPUT_MISMATCH` for an object that is no tensor.
   */
  async withParameters(tensors: Readonly<Record<string, TensorLike>>): Promise<OnnxModel> {
    const chunks = await replaceParameters(modelInternals.of(this), givenFields(tensors, 'tensors'));
    return chunks ? deriveModel(this, chunks) : this;
  }

  /**
   * Writes the model as an ONNX file: under a temporary name first, then renamed. What was not replaced has the same bytes as before.
   *
   * @param path - The file to write. It must not be the file that the model was opened from, nor one with its weights; another file
   * that exists is replaced only with `overwrite`.
   * @param given - See {@link SaveOptions}.
   * @throws {@link TapirError} as {@link PrunedModel.save}.
   */
  async save(path: string, given: Options<SaveOptions> = {}): Promise<void> {
    await saveWhole(modelInternals.of(this), path, given);
  }

  /** All nodes of the main graph, in file order. Computed on first use. */
  get nodes(): readonly NodeInfo[] {
    this.#nodes ??= listNodes(this.#graph);
    return this.#nodes;
  }
}

function listNodes(graph: Graph): NodeInfo[] {
  const tree = moduleTree(graph);
  const roles = nodeRoles(graph);
  const names = nameValues(graph);
  return graph.nodes.map((node) => {
    const outputs = node.outputs.filter((value) => value !== undefined);
    return {
      name: node.name,
      opType: node.domain === '' ? node.opType : `${node.domain}.${node.opType}`,
      module: tree.places.get(node)?.path ?? null,
      inputs: node.inputs.map((value) => value?.name ?? ''),
      outputs: outputs.map(describeValue),
      request: outputs.map((value) => names.get(value)).find((name) => name !== undefined) ?? null,
      role: roles.get(node) ?? 'constant',
    };
  });
}

/**
 * Opens a model: indexes its nodes, tensors and names without reading its weights.
 *
 * @param from - A path, a `file:` URL, or the bytes of an ONNX file (IR version 3 or later).
 * @param given - See {@link OpenOptions}.
 * @returns The model; no file stays open.
 * @throws {@link TapirError} `MODEL_UNREADABLE` if the file cannot be opened; `MODEL_MALFORMED` (with the byte offset, and what
 * the bytes look like) if it is not an ONNX file; `NAMES_INVALID` if the names file is damaged or belongs to another model;
 * `OPTION_INVALID` for any other kind of source.
 *
 * @example
 * ```ts
 * import { openModel } from 'onnx-tapir';
 *
 * const model = await openModel('resnet50.onnx');
 * console.log(model.inputs); // [{ name: 'input', dtype: 'float32', dims: ['batch', 3, 224, 224] }]
 * ```
 */
// oxlint-disable-next-line require-await -- the contract: what touches a file returns a promise, errors included
export async function openModel(from: ModelSource, given: Options<OpenOptions> = {}): Promise<OnnxModel> {
  return indexSource(from, readOptions(OPEN_FIELDS, given, 'openModel'));
}

/** An opened model: the given one, or the one at the given place. */
export function readModel(from: OnnxModel | ModelSource): OnnxModel {
  return from instanceof OnnxModel && modelInternals.has(from)
    ? from
    : indexSource(from as ModelSource, defaultsOf(OPEN_FIELDS));
}

function indexSource(from: ModelSource, { names }: OpenOptions): OnnxModel {
  if (from instanceof Uint8Array) {
    const memory = memorySource(from);
    return createModel({
      graph: indexModel(memory, names, undefined),
      folder: undefined,
      file: undefined,
      path: undefined,
      withSource: async (step) => await step(memory),
      readNow: (step) => step(memory),
    });
  }
  const path = pathOf(from);
  using source = openFileSource(path);
  const file = { path, stamp: source.stamp };
  return createModel({
    graph: indexModel(source, names, sidecarPath(path)),
    folder: dirname(path),
    file,
    path,
    withSource: async (step) => {
      using again = reopenFileSource(file);
      return await step(again);
    },
    readNow: (step) => {
      using again = reopenFileSource(file);
      return step(again);
    },
  });
}

/** A model of new bytes and of pieces of another one, read from its file when they are needed. Its nodes compute the same tensors. */
export async function deriveModel(model: OnnxModel, chunks: readonly Chunk[]): Promise<OnnxModel> {
  const base = modelInternals.of(model);
  // No chunk is a piece of a third file: replaced tensors are new bytes.
  const pieces = chunks as readonly SourceChunk[];
  const withSource: ModelState['withSource'] = (step) =>
    base.withSource((source) => step(chunkSource(source, pieces)));
  const readNow: ModelState['readNow'] = (step) =>
    base.readNow((source) => step(chunkSource(source, pieces)));
  const graph = await withSource((source) => buildGraph(scanModel(source), base.graph.sidecar));
  return createModel({ graph, folder: base.folder, file: undefined, path: base.path, withSource, readNow });
}

/** Scans a model and adds the names of its source network; `beside` is the default names file. */
function indexModel(source: ByteSource, names: string, beside: string | undefined): Graph {
  const model = scanModel(source);
  if (names === 'ignore') return buildGraph(model);
  const path = names === 'auto' ? beside : resolve(names);
  const sidecar = path === undefined ? undefined : readNamesSidecar(path, model);
  if (!sidecar && names !== 'auto') {
    throw new TapirError('NAMES_INVALID', `the names file "${path}" does not exist`, {
      details: { path: path!, reason: 'no such file' },
    });
  }
  return buildGraph(model, sidecar);
}

function pathOf(source: unknown): string {
  if (source instanceof URL) return pathOfUrl(source.href);
  if (typeof source !== 'string' || source === '') throw modelInternals.refuse(source);
  return source.startsWith('file:') && !exists(source) ? pathOfUrl(source) : resolve(modelFile(source));
}

function pathOfUrl(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    // Another protocol, a host, or an escape that does not decode.
    throw invalidOption('model', EXPECTED_MODEL, url);
  }
}

function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Lists the names that {@link createFeatureExtractor} and {@link pruneModel} accept, in execution order. They have torchvision's spelling
 * where the file carries module paths; else they are node names, else tensor names.
 *
 * torchvision gives two lists, one for training and one for evaluation. An ONNX file holds one graph, so there is one list. A
 * module that the exporter folded away (a convolution before its BatchNorm, Dropout) is not in it. Container paths such as
 * `layer4` are accepted as well: they mean the last node under them.
 *
 * @param model - A model, or where to open one. Synchronous in both cases; only the headers of the file are read.
 * @returns Names. Each of them can be requested as it stands, and each denotes a different value.
 * @throws {@link TapirError} those of {@link openModel}.
 *
 * @example
 * ```ts
 * import { getGraphNodeNames } from 'onnx-tapir';
 *
 * const names = getGraphNodeNames('resnet50.onnx');
 * console.log(names.slice(0, 4)); // ['input', 'bn1', 'relu', 'maxpool']
 * ```
 */
export function getGraphNodeNames(model: OnnxModel | ModelSource): string[] {
  return listNames(modelInternals.of(readModel(model)).graph);
}

/** The path of a model's file; undefined for one that was opened from bytes. */
export function modelPathOf(model: OnnxModel): string | undefined {
  return modelInternals.of(model).file?.path;
}
