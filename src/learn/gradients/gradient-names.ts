/** The tensors that a request for gradients names. */
import { isTapirError, TapirError } from '../../base/errors.js';
import type { Graph } from '../../onnx/graph/graph.js';
import { readerOf, type GraphParameters } from '../../onnx/graph/parameters/find-parameters.js';
import type { TransposedCopy } from '../../onnx/graph/parameters/transposed-copies.js';
import { inverse } from '../../onnx/graph/parameters/site.js';
import type { Resolved } from '../../onnx/graph/names/resolve-names.js';
import { resolveTensors } from '../../onnx/graph/names/resolve-tensors.js';
import type { CutOutput } from '../../onnx/graph/rewrite/prune.js';
import type { GradientOutput } from './with-gradients.js';
import type { Parameter } from '../../run/model/open/named-parameters.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import { findCopies, parametersWithCopies } from '../../run/model/open/transposed-copies.js';

/** Names an input for a seed, or an output with a gradient. */
function gradientKey(request: string): string {
  return `gradient/${request}`;
}

/** Resolves the targets. */
export function resolveTargets(model: OnnxModel, requests: readonly string[]): CutOutput[] {
  return resolveTensors(modelInternals.of(model).graph, requests).map((found) =>
    Object.assign(found, { key: gradientKey(found.request) }),
  );
}

/**
 * Resolves what to differentiate with respect to: parameters by their names in torch, then values as everywhere.
 *
 * @throws {@link TapirError} `PARAMETER_FOLDED`; `INPUT_MISMATCH` for a parameter that the file holds in several forms; those of name
 * resolution.
 */
export async function resolveWithRespectTo(
  model: OnnxModel,
  requests: readonly string[],
): Promise<GradientOutput[]> {
  const { graph } = modelInternals.of(model);
  const parameters = new Map(model.namedParameters().map((parameter) => [parameter.name, parameter]));
  const others = requests.filter((request) => !parameters.has(request));
  const resolved = new Map(resolveOthers(graph, others).map((found) => [found.request, found]));
  const asked = requests.some((request) => parameters.has(request));
  const tensorOf = asked ? await soleTensors(model) : () => '';
  return requests.map((request) => {
    const key = gradientKey(request);
    const found = resolved.get(request);
    if (found) return { ...found, key, perm: null };
    const parameter = parameters.get(request)!;
    const value = graph.values.get(tensorOf(parameter))!;
    const { origin } = parameter;
    const perm = origin.kind === 'transposed' ? inverse(origin.perm) : null;
    return { request, key, value, why: 'parameter', perm };
  });
}

/** Resolves names that are no parameters of the file, but may be parameters of the network. */
function resolveOthers(graph: Graph, requests: readonly string[]): Resolved[] {
  try {
    return resolveTensors(graph, requests);
  } catch (error) {
    if (!isTapirError(error, 'NAME_NOT_FOUND')) throw error;
    const why =
      'a parameter of the network that is not in "tapir models params MODEL" was folded into another tensor, or the exporter computed a constant from it; export the model without constant folding to differentiate with respect to it';
    throw new TapirError('NAME_NOT_FOUND', `${error.message}\n${why}`, {
      details: error.details,
      cause: error,
    });
  }
}

/** Gives the initializer that is a parameter. What it returns throws `PARAMETER_FOLDED`, or `INPUT_MISMATCH` for one that is stored several times. */
export async function soleTensors(model: OnnxModel): Promise<(parameter: Parameter) => string> {
  const state = modelInternals.of(model);
  const copies = await findCopies(state);
  const { parameters } = await parametersWithCopies(state);
  return (parameter) => {
    for (const copy of copies)
      if (copy.parameter === parameter.name || copy.guess === parameter.name)
        throw isCopied(parameter.name, copy);
    return soleTensor(parameter, parameters);
  };
}

/** `INPUT_MISMATCH`, for a parameter that the file holds a second time, transposed. */
export function isCopied(name: string, { original, copy }: TransposedCopy): TapirError<'INPUT_MISMATCH'> {
  return new TapirError(
    'INPUT_MISMATCH',
    `"${name}" is stored twice in this file: "${copy.name}" has the values of "${original.name}", transposed, because the exporter folded a transposition; export the model without folding (optimize=False, or do_constant_folding=False), or ask for "tensor:${original.name}" and "tensor:${copy.name}", which are separate tensors here`,
    { details: { input: name, expected: 'one tensor', actual: '2 tensors' } },
  );
}

function soleTensor({ name, origin, initializers }: Parameter, parameters: GraphParameters): string {
  const [tensor] = initializers;
  const module = readerOf(name, parameters);
  if (origin.kind !== 'folded' && parameters.computing.has(module)) {
    const where = module === '' ? 'the model' : `"${module}"`;
    throw new TapirError(
      'PARAMETER_FOLDED',
      `"${name}" may lack a part of its gradient in this file: ${where} reads a constant that the exporter computed, perhaps of it; ask for "tensor:${tensor}", whose gradient is whole, or export the model without constant folding`,
      { details: { parameter: name, layer: module } },
    );
  }
  if (origin.kind === 'folded') {
    throw new TapirError(
      'PARAMETER_FOLDED',
      `"${name}" has no gradient in this file: the exporter folded a norm into "${origin.layer}", and the file holds only the product; ask for "tensor:${tensor}", which is that product, or export the model without folding`,
      { details: { parameter: name, layer: origin.layer } },
    );
  }
  if (initializers.length === 1) return tensor!;
  const list = initializers.map((one) => `"tensor:${one}"`).join(', ');
  throw new TapirError(
    'INPUT_MISMATCH',
    `"${name}" is stored ${initializers.length} times in this file (${list}); ask for these tensors, and add their gradients`,
    { details: { input: name, expected: 'one tensor', actual: `${initializers.length} tensors` } },
  );
}
