/** Differentiates a model: the gradients of some of its values with respect to others, as an ONNX graph. */
import type { Options } from '../../base/checks.js';
import { checkedBy, defaultsOf, readOptions, unchecked, type Fields } from '../../base/options.js';
import { TapirError } from '../../base/errors.js';
import type { Graph, Node, Value } from '../../onnx/graph/graph.js';
import { checkOperators } from './backpropagate.js';
import { withGradients, type GradientPlan } from './with-gradients.js';
import { resolveTensors } from '../../onnx/graph/names/resolve-tensors.js';
import { cutGraph, type Cut } from '../../onnx/graph/rewrite/prune.js';
import type { Rewrite } from '../../onnx/graph/rewrite/rewrite.js';
import type { Attribute } from '../../onnx/file/scan/attributes.js';
import { elementTypeNumber, isFloatType, type Dim } from '../../onnx/file/wire/schema.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { readInputSizes, type CheckedSizes, type InputSizes } from '../../run/model/open/input-sizes.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import { chunksOf } from '../../run/model/prune/derive-rewritten.js';
import { createPruned, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import { checkNames, readReturnNodes, type ReturnNodes } from '../../run/model/open/return-nodes.js';
import { readRewriteOptions, REWRITE_FIELDS } from '../../run/model/prune/rewrite-options.js';
import { resolveTargets, resolveWithRespectTo } from './gradient-names.js';
import { describeValues, foldConstants, inferTypes } from '../../run/model/oracle/infer-types.js';
import { SessionHolder } from '../../run/model/oracle/session-holder.js';
import { readConstants } from '../../onnx/graph/read-constants.js';

/** What {@link differentiate} is asked. */
export interface DifferentiateOptions {
  /**
   * Names of the values to differentiate, in the same forms as the names to return. There is an input `gradient/NAME` for each, which
   * takes its seed: the gradient of your objective with respect to the value, of the value's dims. Ones give the gradient of its sum.
   */
  readonly of: readonly string[];
  /**
   * Names of what to differentiate with respect to: inputs, values inside the graph, or parameters by their names in torch. There is an
   * output `gradient/NAME` for each. That of a parameter has torch's layout.
   */
  readonly withRespectTo: readonly string[];
  /**
   * Values of the model to return as well, as for {@link pruneModel}.
   * @default []
   */
  readonly returnNodes: ReturnNodes;
  /**
   * Sizes for axes of inputs that the file leaves open, where the model must run on made-up inputs to find out the rank of a value.
   * @default {}
   */
  readonly inputSizes: InputSizes;
  /**
   * Names of values between which the forward pass is computed again in the backward pass, instead of being kept: much less memory for the
   * time of one more forward pass. Good names are the ends of blocks, such as `layer1.0` of a ResNet, on which everything after them depends.
   * @default [], which keeps all results
   */
  readonly recompute: readonly string[];
}

export const DIFFERENTIATE_FIELDS: Fields<DifferentiateOptions> = {
  of: checkedBy(checkNames, []),
  withRespectTo: checkedBy(checkNames, []),
  returnNodes: unchecked([]),
  inputSizes: unchecked({}),
  recompute: unchecked([]),
};

/**
 * Writes the backward pass of a model down as an ONNX graph of ordinary operators, which any runtime computes. It holds the nodes and
 * weights that the gradients need, and nothing else.
 *
 * The gradients are those of the sum of all targets, each multiplied by its seed. At a kink (ReLU at 0) they are PyTorch's. BatchNorm
 * is differentiated as the file has it: with fixed statistics, or with those of the batch in training mode.
 *
 * @param model - A model, or where to open one.
 * @param given - See {@link DifferentiateOptions}.
 * @returns The model that computes the gradients. Its inputs are the seeds `gradient/NAME` and those of the source that it needs.
 * @throws {@link TapirError} `GRADIENT_UNSUPPORTED` with the operator, its node and the nearest place that has a gradient;
 * `PARAMETER_FOLDED` for a parameter that the exporter folded into another one; `INPUT_MISMATCH` for one that the file holds twice,
 * and for a tensor that is not floating-point; `SESSION_FAILED` if ONNX Runtime refuses the model; those of name resolution and of
 * {@link openModel}.
 *
 * @example The gradient of the logits with respect to the photo, and to the weights of the last layer.
 * ```ts
 * import { differentiate } from 'onnx-tapir/gradients';
 *
 * const gradients = await differentiate('resnet50.onnx', { of: ['fc'], withRespectTo: ['input', 'fc.weight'] });
 * console.log(gradients.plan.added.inputs); // ['gradient/fc']
 * await gradients.save('resnet50-gradients.onnx'); // outputs 'gradient/input' and 'gradient/fc.weight'
 * ```
 */
export async function differentiate(
  model: OnnxModel | ModelSource,
  given: Options<DifferentiateOptions> & Pick<DifferentiateOptions, 'of' | 'withRespectTo'>,
): Promise<PrunedModel> {
  const options = readOptions(DIFFERENTIATE_FIELDS, given, 'differentiate');
  const opened = readModel(model);
  const plan = await planGradients(opened, options);
  const inputSizes = readInputSizes(options.inputSizes);
  const { rewrite, typeOf } = await planBackward(opened, plan, inputSizes);
  const setup = readRewriteOptions(defaultsOf(REWRITE_FIELDS), []);
  const outputs = rewrite.outputs.map(({ request, key }) => ({ request, key }));
  const request = { ...setup, inputSizes, outputs, naming: 'keys', ...PLAIN } as const;
  return createPruned({
    model: opened,
    request,
    typeOf: (value) => ({ elemType: elemTypeOf(typeOf(value)) ?? 0, dims: typeOf(value).dims }),
    tokensOf: () => null,
    placesOf: () => null,
    measured: new Map(),
    isGradient: true,
    rewrite,
    chunks: await chunksOf(opened, rewrite, 'keys'),
  });
}

type Attributes = ReadonlyMap<string, Attribute>;

/** Adds the backward pass to a graph, as {@link differentiate} does. `restate` gives nodes other attributes than the file has. */
export async function planBackward(
  model: OnnxModel,
  plan: GradientPlan,
  inputSizes: CheckedSizes,
  restate: (node: Node, stated: Attributes) => Attributes = (_, stated) => stated,
): Promise<{ readonly rewrite: Rewrite; readonly typeOf: (value: Value) => TensorInfo }> {
  const { graph, withSource } = modelInternals.of(model);
  const cut = cutGraph(graph, { outputs: [...plan.targets, ...plan.returns] });
  const values = plan.gradients.map(({ value }) => value);
  const targets = plan.targets.map(({ value }) => value);
  checkOperators(cut, targets, values);
  const { typeOf, folded } = await lookUp(model, cut.nodes, [...cut.values, ...values], inputSizes);
  for (const { request, value } of [...plan.targets, ...plan.gradients]) checkFloat(request, typeOf(value));
  return await withSource((source) => {
    const constants = readConstants(new WireReader(source));
    const rewrite = withGradients(cut, plan, {
      attributesOf: (node) => restate(node, constants.attributesOf(node)),
      integersOf: (value) => constants.integersOf(value) ?? folded.get(value),
      dimsOf: (value) => typeOf(value).dims ?? undefined,
      elemTypeOf: (value) => elemTypeOf(typeOf(value)),
    });
    return { rewrite, typeOf };
  });
}

const PLAIN = { allowNonTensor: false, fillTypes: false, tidy: false } as const;

/** Reads the request. */
async function planGradients(model: OnnxModel, options: DifferentiateOptions): Promise<GradientPlan> {
  const { of, withRespectTo } = options;
  const pairs = isEmpty(options.returnNodes) ? [] : readReturnNodes(options.returnNodes).pairs;
  const { graph } = modelInternals.of(model);
  const names = pairs.map(({ request }) => request);
  const returns = resolveTensors(graph, names).map((found, i) =>
    Object.assign(found, { key: pairs[i]!.key }),
  );
  const targets = resolveTargets(model, [...new Set(of)]);
  const gradients = await resolveWithRespectTo(model, [...new Set(withRespectTo)]);
  const keys = new Set(targets.map(({ key }) => key));
  const twice = [...gradients, ...returns].find(({ key }) => keys.has(key) || !keys.add(key));
  if (!twice) return { targets, gradients, returns, recompute: readKept(graph, options.recompute) };
  throw new TapirError(
    'OPTION_INVALID',
    `"${twice.key}" would name two inputs or outputs; the gradient of a value with respect to itself is its seed, and keys of returnNodes must differ from it`,
    { details: { option: 'withRespectTo', expected: 'distinct names', actual: twice.key } },
  );
}

/** Reads the names of what is kept. Throws `OPTION_INVALID` and those of name resolution. */
export function readKept(graph: Graph, given: unknown): Value[] {
  const names = isEmpty(given) ? [] : checkNames('recompute', given);
  return resolveTensors(graph, names).map(({ value }) => value);
}

function isEmpty(list: unknown): boolean {
  return Array.isArray(list) && list.length === 0;
}

/** What the file states about values, else what ONNX Runtime infers; and the lists of integers that the graph computes from constants. */
async function lookUp(
  model: OnnxModel,
  nodes: Cut['nodes'],
  values: readonly Value[],
  inputSizes: CheckedSizes,
) {
  await using sessions = new SessionHolder(model);
  const described = await describeValues(values, inputSizes, sessions);
  // A file may leave sizes open that follow from its inputs.
  const { inputs } = modelInternals.of(model).graph;
  const isOpen = (value: Value): boolean => described(value).dims?.every(isNumber) === false;
  const inferred = inputs.some(isOpen)
    ? undefined
    : await inferTypes(values.filter(isOpen), undefined, sessions);
  const typeOf = (value: Value): TensorInfo => {
    const type = described(value);
    const dims = inferred?.get(value)?.dims;
    return dims?.length === type.dims?.length && dims?.every(isNumber) === true ? { ...type, dims } : type;
  };
  const isList = (value: Value | undefined): value is Value => {
    if (!value?.producer || value.producer.opType === 'Constant') return false;
    const { dtype, dims } = typeOf(value);
    return (dtype === 'int64' || dtype === 'int32') && dims !== null && dims.length < 2;
  };
  const lists = [...nodes].flatMap((node) => node.inputs.slice(1).filter(isList));
  return { typeOf, folded: await foldConstants(lists, sessions) };
}

function isNumber(size: Dim): size is number {
  return typeof size === 'number';
}

function elemTypeOf({ dtype }: TensorInfo): number | undefined {
  return dtype === null ? undefined : elementTypeNumber(dtype);
}

function checkFloat(request: string, type: TensorInfo): void {
  const elemType = elemTypeOf(type);
  if (elemType !== undefined && isFloatType(elemType)) return;
  const actual = type.dtype ?? 'of an unknown type';
  throw new TapirError(
    'INPUT_MISMATCH',
    `"${request}" is ${actual}: only floating-point tensors have gradients`,
    {
      details: { input: request, expected: 'a floating-point tensor', actual },
    },
  );
}
