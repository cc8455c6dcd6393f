/** The parameters of a model under the names of the source network. Values stay in the file until they are read. */
import { TapirError } from '../../../base/errors.js';
import { groupBy } from '../../../base/group-by.js';
import { oncePer } from '../../../base/once-per.js';
import {
  findParameters,
  unnamedTensors,
  type ParameterUse,
  type TensorKind,
} from '../../../onnx/graph/parameters/find-parameters.js';
import { RUNNING_STATISTICS } from '../../../onnx/graph/parameters/parameter-slots.js';
import { inverse, torchDims, type Site } from '../../../onnx/graph/parameters/site.js';
import { channelsOf, type FoldedLayer } from '../../../onnx/graph/parameters/folded-layer.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { elementTypeName } from '../../../onnx/file/wire/schema.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import type { ModelState } from './model-state.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { readInitializer } from './read-initializer.js';

/** How a parameter of the source network lies in the file. */
export type ParameterOrigin =
  /** As torch has it. */
  | { readonly kind: 'exact' }
  /** With its axes in another order: axis `i` of the file's tensor is axis `perm[i]` of torch's. */
  | { readonly kind: 'transposed'; readonly perm: readonly number[] }
  /** With other dims, and the same elements in the same order. */
  | { readonly kind: 'reshaped' }
  /**
   * In a tensor with a name of its own, which only elimination tells: the exporter may have computed it of the parameter. Loads alone have
   * this origin.
   */
  | { readonly kind: 'assumed' }
  /** Stored several times, in different forms. */
  | { readonly kind: 'several' }
  /**
   * The exporter folded a BatchNorm into a layer: the file holds `weight · s` and `(bias − mean) · s + beta`, with
   * `s = gamma / sqrt(var + eps)` along `axis` of the file's tensor. `norm` is null if the file does not say which one it was.
   */
  | { readonly kind: 'folded'; readonly layer: string; readonly norm: string | null; readonly axis: number };

/** A learnable tensor or a buffer of a model. */
export interface Parameter {
  /** Its name in torch's state dict; the tensor's own name where the file does not prove another. */
  readonly name: string;
  /** The initializers, or tensors of Constant nodes, that hold it or into which it was folded. */
  readonly initializers: readonly string[];
  /** Element type in the file: `float32`, `float16`, `bfloat16`, `int8`, … */
  readonly dtype: string;
  /** Sizes as torch has them. */
  readonly dims: readonly number[];
  /**
   * `buffer` means running statistics, integers, and what a file of torch's dynamo exporter states to be a buffer. `constant` means floats
   * that neither a name nor the operator proves to be a parameter: constants of the network, and what the exporter computed of parameters.
   * State dicts leave constants out.
   */
  readonly kind: 'parameter' | 'buffer' | 'constant';
  readonly origin: ParameterOrigin;
  /** Names of other parameters that the same initializer holds: tied ones, or ones whose values are equal. */
  readonly mergedWith: readonly string[];
  /**
   * Reads the values, in torch's layout. bfloat16 becomes float32, exactly. The weight of a folded layer is read as the file holds it,
   * with the norm in it.
   *
   * @returns A new tensor, which you own.
   * @throws {@link TapirError} `PARAMETER_FOLDED` for a norm that was folded into a layer, whose values are lost; `MODEL_CHANGED`;
   * `MODEL_MALFORMED`; `EXTERNAL_DATA_UNSAFE`.
   */
  read(): Promise<Tensor>;
}

/** The parameters and buffers of a model in execution order. The same objects at every call. */
export const listParameters: (model: ModelState) => readonly Parameter[] = oncePer(makeParameters);

/** A parameter before it knows the others. */
interface Draft {
  readonly parameter: Omit<Parameter, 'mergedWith'>;
  /** Position of the first node that reads it. */
  readonly index: number;
  readonly values: readonly Value[];
}

function makeParameters(model: ModelState): readonly Parameter[] {
  const parameters = findParameters(model.graph);
  const { uses, folded, kinds } = parameters;
  const byName = groupBy(uses, ({ names }) => names[0]!);
  const drafts = [
    ...[...byName].map(([name, ofName]) => draftOf(model, name, ofName)),
    ...folded.flatMap((layer) => draftsOf(model, layer)),
    ...unnamedTensors(parameters).map((site) => {
      const { node, initializer } = site;
      return draftOf(model, initializer.name, [{ node, site, perm: null, kind: kinds.get(initializer)! }]);
    }),
  ].toSorted((a, b) => a.index - b.index);
  const holders = new Map<Value, Set<string>>();
  for (const { parameter, values } of drafts)
    for (const value of values) holders.set(value, (holders.get(value) ?? new Set()).add(parameter.name));
  return drafts.map(({ parameter, values }) => {
    const others = new Set(values.flatMap((value) => [...holders.get(value)!]));
    others.delete(parameter.name);
    const mergedWith = parameter.origin.kind === 'folded' ? [] : [...others];
    return Object.freeze(Object.assign(parameter, { mergedWith }));
  });
}

/** How a node reads a tensor, which nothing needs to name. */
type Use = Pick<ParameterUse, 'node' | 'site' | 'perm'> & { readonly kind: TensorKind };

function draftOf(model: ModelState, name: string, uses: readonly Use[]): Draft {
  const forms = new Set(uses.map(({ perm }) => String(perm)));
  const use = uses.find(({ perm }) => perm === null) ?? uses[0]!;
  const { initializer } = use.site;
  const origin: ParameterOrigin =
    forms.size > 1
      ? { kind: 'several' }
      : use.perm
        ? { kind: 'transposed', perm: use.perm }
        : { kind: 'exact' };
  const values = [...new Set(uses.map(({ site }) => site.initializer))];
  const parameter = {
    name,
    initializers: values.map((value) => value.name),
    dtype: dtypeOf(initializer),
    dims: torchDims(initializer, use.perm),
    kind: use.kind,
    origin,
    read: () => load(model, use.site, use.perm),
  };
  return { parameter, index: uses[0]!.node.index, values };
}

/** A folded layer: its weight, and the norm where the file says which one it was. */
function draftsOf(model: ModelState, layer: FoldedLayer): Draft[] {
  const { node, weight, bias, axis, perm } = layer;
  const norm = layer.isProven || layer.norms.length === 1 ? layer.norms[0]! : null;
  const values = [weight, ...(bias ? [bias] : [])].map(({ initializer }) => initializer);
  const channels = channelsOf(layer);
  const draft = (
    name: string,
    kind: Parameter['kind'],
    dims: readonly number[] = [channels],
    read: Parameter['read'] = () => Promise.reject(isLost(name, layer.layer)),
  ): Draft => {
    const origin = { kind: 'folded', layer: layer.layer, norm, axis } as const;
    const dtype = dtypeOf(weight.initializer);
    const initializers = values.map((value) => value.name);
    return { parameter: { name, initializers, dtype, dims, kind, origin, read }, index: node.index, values };
  };
  const dims = torchDims(weight.initializer, perm);
  const drafts = [draft(`${layer.layer}.weight`, 'parameter', dims, () => load(model, weight, perm))];
  // dynamo leaves the name of the layer's bias, too, and puts other values there.
  const lostBias = `${layer.layer}.bias`;
  if (bias?.initializer.name === lostBias) drafts.push(draft(lostBias, 'parameter'));
  if (norm === null) return drafts;
  for (const attribute of ['weight', 'bias', 'running_mean', 'running_var'])
    drafts.push(draft(`${norm}.${attribute}`, RUNNING_STATISTICS.has(attribute) ? 'buffer' : 'parameter'));
  return drafts;
}

function isLost(parameter: string, layer: string): TapirError<'PARAMETER_FOLDED'> {
  return new TapirError(
    'PARAMETER_FOLDED',
    `"${parameter}" has no values in this file: the exporter folded it into "${layer}.weight"; read them from the checkpoint (readStateDict)`,
    { details: { parameter, layer } },
  );
}

function dtypeOf(value: Value): string {
  return elementTypeName(value.initializer!.elemType) ?? String(value.initializer!.elemType);
}

async function load(
  model: ModelState,
  { initializer }: Site,
  perm: readonly number[] | null,
): Promise<Tensor> {
  const tensor = await readInitializer(model, initializer.initializer!);
  return perm ? permute(tensor, inverse(perm)) : tensor;
}
