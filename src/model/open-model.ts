/** A model file, indexed. */
import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkText, invalidOption, withDefaults, type Options } from '../base/checks.js';
import { TapirError } from '../base/errors.js';
import type { StampedFile } from '../base/file-stamp.js';
import { buildGraph } from '../graph/build-graph.js';
import type { Graph } from '../graph/graph.js';
import { moduleTree } from '../graph/names/module-tree.js';
import { nodeRoles } from '../graph/roles.js';
import { listNames, nameValues } from '../graph/names/name-list.js';
import { readNamesSidecar, sidecarPath } from '../onnx/names-sidecar.js';
import { scanModel } from '../onnx/scan.js';
import { memorySource, openFileSource, reopenFileSource, type ByteSource } from '../onnx/source.js';
import { describeValue } from './value-info.js';
import type { TensorInfo } from '../tensor/tensor-info.js';

/** Where a model comes from: a path, a `file:` URL, or the bytes themselves. */
export type ModelSource = string | URL | Uint8Array;

/** Options of {@link openModel}. */
export interface OpenOptions {
  /**
   * Names of the source network beside the model (docs/names-sidecar.md): a path; `auto` takes `MODEL.onnx.names.json` if that is
   * there; `ignore` works names out from the file alone.
   * @default 'auto'
   */
  readonly names: string;
}

export const OPEN_DEFAULTS: OpenOptions = { names: 'auto' };

/** A node of a model, for listings. */
export interface NodeInfo {
  /** The node's own name; often empty. */
  readonly name: string;
  /** ONNX operator, with its domain in front if that is not the default one. */
  readonly opType: string;
  /** The module of the source network that ran it, where the file carries module paths. */
  readonly module: string | null;
  readonly inputs: readonly string[];
  readonly outputs: readonly TensorInfo[];
  /** The name to ask for its result by, if it has one (see {@link getGraphNodeNames}). */
  readonly request: string | null;
  /** Whether the result depends on the input, only on its size, or on neither. */
  readonly role: 'data' | 'shape' | 'constant';
}

interface ModelState {
  readonly graph: Graph;
  /** Folder that external weights are relative to; undefined for a model in memory. */
  readonly folder: string | undefined;
  /** The file; undefined for a model in memory. */
  readonly file: StampedFile | undefined;
  /** Runs a step with the source open; a file is checked to be still the one that was indexed. */
  readonly withSource: <Result>(step: (source: ByteSource) => Result | Promise<Result>) => Promise<Result>;
}

let stateOf: (model: OnnxModel) => ModelState;

/**
 * An opened ONNX model: what is in the file, without its weights. Holds no file open and needs no closing.
 *
 * @remarks Frozen. A model opened from bytes keeps a view of them: leave them unchanged as long as it is used.
 */
export class OnnxModel {
  readonly #state: ModelState;
  /** The path of the file, or "model bytes". */
  readonly label: string;
  /** Graph inputs that must be fed (initializers that are also listed as inputs are not among them). */
  readonly inputs: readonly TensorInfo[];
  /** Graph outputs, in the file's order. */
  readonly outputs: readonly TensorInfo[];
  readonly irVersion: number;
  /** Operator-set version by domain; "" is the default domain. */
  readonly opsets: ReadonlyMap<string, number>;
  /** Program that wrote the file, with its version. */
  readonly producer: string;
  /** The file with names of the source network that is in use, or null. */
  readonly names: string | null;
  #nodes: readonly NodeInfo[] | undefined;

  static {
    stateOf = (model) => model.#state;
  }

  /** Use {@link openModel}. */
  constructor(state: ModelState) {
    this.#state = state;
    const { model, inputs, outputs } = state.graph;
    this.label = model.label;
    this.inputs = inputs.map(describeValue);
    this.outputs = outputs.map(describeValue);
    this.irVersion = model.irVersion;
    this.opsets = model.opsets;
    this.producer = model.producer;
    this.names = state.graph.sidecar?.path ?? null;
  }

  /** All nodes of the main graph, in file order. Computed on first use. */
  get nodes(): readonly NodeInfo[] {
    this.#nodes ??= listNodes(this.#state.graph);
    return this.#nodes;
  }
}

export { stateOf };

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
 * @param from - A path, a `file:` URL, or the bytes of an ONNX file (IR version 3 and later).
 * @param given - See {@link OpenOptions}.
 * @returns The model; nothing stays open.
 * @throws {@link TapirError} `MODEL_UNREADABLE` if the file cannot be opened, `MODEL_MALFORMED` (with the byte offset, and
 * what the bytes look like) if it is no ONNX file, `NAMES_INVALID` if the names beside it are damaged or another model's,
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
  const names = checkText('names', withDefaults(OPEN_DEFAULTS, given, 'openModel').names);
  if (from instanceof Uint8Array) {
    const memory = memorySource(from);
    return new OnnxModel({
      graph: indexModel(memory, names, undefined),
      folder: undefined,
      file: undefined,
      withSource: async (step) => await step(memory),
    });
  }
  const path = pathOf(from);
  const source = openFileSource(path);
  const file = { path, stamp: source.stamp };
  try {
    return new OnnxModel({
      graph: indexModel(source, names, sidecarPath(path)),
      folder: dirname(path),
      file,
      withSource: async (step) => {
        const again = reopenFileSource(file);
        try {
          return await step(again);
        } finally {
          again.close();
        }
      },
    });
  } finally {
    source.close();
  }
}

/** `beside` is where names are looked for if none are given. */
function indexModel(source: ByteSource, names: string, beside: string | undefined): Graph {
  const model = scanModel(source);
  if (names === 'ignore') return buildGraph(model);
  const path = names === 'auto' ? beside : resolve(names);
  const sidecar = path === undefined ? undefined : readNamesSidecar(path, model);
  if (!sidecar && names !== 'auto') {
    throw new TapirError('NAMES_INVALID', `there are no names in "${path}": no such file`, {
      details: { path: path!, reason: 'no such file' },
    });
  }
  return buildGraph(model, sidecar);
}

function pathOf(source: unknown): string {
  if (source instanceof URL) {
    if (source.protocol !== 'file:')
      throw invalidOption('model', 'a path, a file: URL or bytes', source.href);
    return fileURLToPath(source);
  }
  if (typeof source !== 'string' || source === '')
    throw invalidOption('model', 'a path, a file: URL or bytes', source);
  if (source.startsWith('file:') && !exists(source)) return fileURLToPath(source);
  return resolve(source);
}

function exists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

/**
 * Lists the names that {@link createFeatureExtractor} and {@link pruneModel} accept, in execution order: torchvision's
 * spelling where the file carries module paths, else node names, else tensor names.
 *
 * torchvision gives two lists, for training and evaluation; an ONNX file holds one graph, so there is one. A module that
 * the exporter folded away (a convolution before its BatchNorm, Dropout) has no name here. Container paths such as
 * `layer4` are accepted as well and mean the last node under them.
 *
 * @param model - An opened model.
 * @returns Names; each is accepted as it stands and denotes a value of its own.
 *
 * @example
 * ```ts
 * import { getGraphNodeNames, openModel } from 'onnx-tapir';
 *
 * const names = getGraphNodeNames(await openModel('resnet50.onnx'));
 * console.log(names.slice(0, 4)); // ['input', 'bn1', 'relu', 'maxpool']
 * ```
 */
export function getGraphNodeNames(model: OnnxModel): string[] {
  return listNames(stateOf(model).graph);
}
