/** The tensors of a model that training changes: parameters by torch's names, and statistics of norms. Each gets its own initializer. */
import { show, invalidOption } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { describeNearest, nearestNames } from '../../../base/nearest-names.js';
import type { Graph, Value } from '../../../onnx/graph/graph.js';
import { findParameters } from '../../../onnx/graph/parameters/find-parameters.js';
import { inverse, siteOf, type Site } from '../../../onnx/graph/parameters/site.js';
import { modelInternals } from '../../../run/model/open/model-state.js';
import type { Parameter } from '../../../run/model/open/named-parameters.js';
import { deriveModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { isCopied, soleTensors } from '../../gradients/gradient-names.js';
import { readInitializer, readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { replaceTensors, type SiteEdit } from '../../../run/model/open/replace-tensors.js';
import { findCopies } from '../../../run/model/open/transposed-copies.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { makeTensor, mismatch, type Tensor } from '../../../onnx/tensor/tensor.js';

/** A tensor to train, and where the graph reads it. */
export interface WantedTensor {
  readonly name: string;
  /** At least one; all of one initializer. */
  readonly sites: readonly Site[];
  /** The order in which torch's axes lie in the file; null as in torch. */
  readonly perm: readonly number[] | null;
}

/** A tensor in training. */
export interface TrainedTensor {
  /** torch's name. */
  readonly name: string;
  /** The name of the initializer, which nothing else reads. */
  readonly initializer: string;
  readonly perm: readonly number[] | null;
  /** Sizes in the file. */
  readonly dims: readonly number[];
  /** The present values in the file's layout; training writes into them. */
  readonly values: Float32Array;
}

/** What may stand before the name of an initializer. */
const BY_INITIALIZER = 'tensor:';

/**
 * Finds parameters by patterns: a name in torch (`fc.weight`), the path of a module (`layer4`), both with `*` for anything
 * (`layer4.*.bias`), or `tensor:` and the name of an initializer.
 *
 * @returns In execution order, each once.
 * @throws {@link TapirError} `NAME_NOT_FOUND` for a pattern that fits nothing; `PARAMETER_FOLDED`; `INPUT_MISMATCH` for a parameter that
 * is not float32, or that the file holds in several forms.
 */
export async function findTrainable(model: OnnxModel, patterns: readonly string[]): Promise<WantedTensor[]> {
  const { graph } = modelInternals.of(model);
  const all = model.namedParameters().filter(({ kind }) => kind === 'parameter');
  const found = new Set<Parameter>();
  const tensors: WantedTensor[] = [];
  for (const pattern of patterns) {
    if (pattern.startsWith(BY_INITIALIZER)) {
      tensors.push(wantInitializer(pattern, graph.values.get(pattern.slice(BY_INITIALIZER.length))));
      continue;
    }
    const fits = patternOf(pattern);
    const fitting = all.filter(({ name }) => fits.test(name));
    if (fitting.length === 0) throw notFound(pattern, all);
    for (const parameter of fitting) found.add(parameter);
  }
  const { uses } = findParameters(graph);
  const parameters = all.filter((parameter) => found.has(parameter));
  const tensorOf = parameters.length > 0 ? await soleTensors(model) : () => '';
  const copies = parameters.length > 0 ? await findCopies(modelInternals.of(model)) : [];
  const wanted = parameters.map((parameter): WantedTensor => {
    const tensor = tensorOf(parameter);
    const copied = copies.find(({ copy }) => copy.name === tensor);
    if (copied) throw isCopied(parameter.name, copied);
    const ofName = uses.filter(
      ({ names, site }) => names[0] === parameter.name && site.initializer.name === tensor,
    );
    // Nothing names it in torch: it goes by the name of its tensor.
    if (ofName.length === 0) return wantInitializer(parameter.name, graph.values.get(tensor));
    return { name: parameter.name, sites: ofName.map(({ site }) => site), perm: ofName[0]!.perm };
  });
  for (const { name, sites } of [...wanted, ...tensors]) checkFloat32(name, sites[0]!.initializer);
  return [...wanted, ...tensors];
}

function patternOf(pattern: string): RegExp {
  const source = pattern
    .split('*')
    .map((part) => part.replaceAll(/[\\^$.+?()[\]{}|]/g, String.raw`\$&`))
    .join('.*');
  return new RegExp(`^${source}(\\..*)?$`, 'su');
}

function wantInitializer(pattern: string, value: Value | undefined): WantedTensor {
  const sites = (value?.uses ?? []).flatMap((node) =>
    [...node.inputs.keys()].flatMap((slot): Site[] =>
      node.inputs[slot] === value ? [{ node, slot, initializer: value! }] : [],
    ),
  );
  if (!value?.initializer || sites.length === 0)
    throw notFoundError(pattern, 'the file has no initializer of that name that a node reads', []);
  return { name: pattern, sites, perm: null };
}

function notFound(pattern: string, parameters: readonly Parameter[]): TapirError {
  const names = parameters.map(({ name }) => name);
  const modules = names.flatMap((name) =>
    name.split('.').map((_, i, parts) => parts.slice(0, i + 1).join('.')),
  );
  return notFoundError(
    pattern,
    'no parameter of the file fits it',
    nearestNames(pattern, [...names, ...modules]),
  );
}

function notFoundError(request: string, reason: string, nearest: readonly string[]): TapirError {
  return new TapirError(
    'NAME_NOT_FOUND',
    `"${request}" cannot be trained: ${reason}${describeNearest(nearest)} (tapir models params MODEL lists all)`,
    {
      details: { names: [{ request, nearest }] },
    },
  );
}

function checkFloat32(name: string, { initializer }: Value): void {
  const { elemType } = initializer!;
  if (elemType === ELEMENT_TYPE.float32) return;
  const expected = 'float32 to be trained (convert the model to float32 first)';
  throw mismatch(name, expected, `of ONNX type ${elemType}`);
}

/** A model in which each wanted tensor has its own initializer. */
export interface OwnedTensors {
  readonly model: OnnxModel;
  /** By the wanted names. Tied ones are one tensor, which has the first one's name. */
  readonly tensors: ReadonlyMap<string, TrainedTensor>;
}

/**
 * Gives tensors their own initializers. Exporters merge tensors of equal values: all zero biases of a network may be one. A tensor
 * whose elements are all the same was merged. Any other one that several parameters read is tied, and stays one; buffers that were equal
 * to it are no parameters, and keep their values.
 */
export async function ownTensors(model: OnnxModel, wanted: readonly WantedTensor[]): Promise<OwnedTensors> {
  const state = modelInternals.of(model);
  const edits: SiteEdit[] = [];
  for (const initializer of new Set(wanted.map(({ sites }) => sites[0]!.initializer))) {
    // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
    const bytes = await readInitializerBytes(state, initializer.initializer!);
    const ofOne = wanted.filter(({ sites }) => sites[0]!.initializer === initializer);
    edits.push(...editsOf(initializer, ofOne, state.graph, bytes));
  }
  const chunks = await replaceTensors(state, edits);
  const owned = chunks ? await deriveModel(model, chunks) : model;
  const { graph } = modelInternals.of(owned);
  const tensors = new Map<string, TrainedTensor>();
  const owners = new Map<Value, TrainedTensor>();
  for (const { name, sites, perm } of wanted) {
    const { node, slot } = sites[0]!;
    // An Identity that copied a merged tensor for the parameter is the parameter's own tensor now.
    const made = graph.values.get(node.outputs.find((value) => value !== undefined)!.name)!;
    const initializer = made.producer ? siteOf(made.producer, slot)!.initializer : made;
    let tensor = owners.get(initializer);
    if (!tensor) {
      // oxlint-disable-next-line no-await-in-loop -- one tensor in memory at a time
      const { dims, data } = await readInitializer(modelInternals.of(owned), initializer.initializer!);
      tensor = { name, initializer: initializer.name, perm, dims, values: data as Float32Array };
      owners.set(initializer, tensor);
    }
    tensors.set(name, tensor);
  }
  return { model: owned, tensors };
}

/** The split of a merged tensor: every parameter that reads it, wanted or not, gets one under its own name; of a tied one, only buffers. */
function editsOf(
  initializer: Value,
  wanted: readonly WantedTensor[],
  graph: Graph,
  bytes: Uint8Array,
): SiteEdit[] {
  const edit = (site: Site, name: string): SiteEdit => ({ site, name, bytes, owner: name });
  const edits = wanted.flatMap(({ name, sites }) => sites.map((site) => edit(site, name)));
  const isTaken = ({ node, slot }: Site): boolean =>
    edits.some(({ site }) => site.node === node && site.slot === slot);
  const readers = findParameters(graph).uses.filter(({ site }) => site.initializer === initializer);
  const others = readers.filter(({ site }) => !isTaken(site));
  const split = (uses: typeof others): SiteEdit[] => uses.map(({ names, site }) => edit(site, names[0]!));
  if (isConstant(bytes)) return [...edits, ...split(others)];
  const isStatistic = readers.some(({ site, kind }) => kind === 'buffer' && isTaken(site));
  return isStatistic ? [] : split(others.filter(({ kind }) => kind === 'buffer'));
}

function isConstant(bytes: Uint8Array): boolean {
  const first = bytes.subarray(0, 4);
  for (let at = 4; at < bytes.length; at += 4)
    for (let k = 0; k < 4; k++) if (bytes[at + k] !== first[k]) return false;
  return true;
}

/** The model with the present values. */
export async function withValues(model: OnnxModel, tensors: readonly TrainedTensor[]): Promise<OnnxModel> {
  const state = modelInternals.of(model);
  const edits = tensors.map(({ name, initializer, dims, values }): SiteEdit => {
    const value = state.graph.values.get(initializer)!;
    const site = { node: value.uses[0]!, slot: 0, initializer: value };
    return { site, name, bytes: bytesOf(values.slice()), dims };
  });
  const chunks = await replaceTensors(state, edits);
  return chunks ? await deriveModel(model, chunks) : model;
}

/** The present values in torch's layout. */
export function inTorchLayout({ dims, perm }: TrainedTensor, values: Float32Array): Tensor<'float32'> {
  const tensor = makeTensor('float32', dims, values);
  return perm ? (permute(tensor, inverse(perm)) as Tensor<'float32'>) : tensor;
}

/** Values in torch's layout → the file's. Throws `INPUT_MISMATCH` for other sizes. */
export function inFileLayout({ name, dims, perm }: TrainedTensor, given: Tensor): Float32Array {
  const laid = perm ? permute(given, perm) : given;
  if (laid.dtype === 'float32' && String(laid.dims) === String(dims)) return laid.data;
  throw mismatch(name, `float32 [${dims.join(', ')}]`, `${laid.dtype} [${laid.dims.join(', ')}]`);
}

/** Reads patterns. Throws `OPTION_INVALID`. */
export function readPatterns(option: string, given: unknown): readonly string[] {
  const patterns = typeof given === 'string' ? [given] : given;
  const isFine = Array.isArray(patterns) && patterns.every((one) => typeof one === 'string' && one !== '');
  if (!isFine || patterns.length === 0)
    throw invalidOption(
      option,
      'names of parameters or modules, such as ["layer4.*", "fc"]; with none, everything would stay frozen',
      show(given),
    );
  return patterns as readonly string[];
}
