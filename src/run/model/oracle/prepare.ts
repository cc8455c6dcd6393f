/** Model + request → a rewrite: resolves names, cuts the graph, adds the requested parts. */
import { TapirError } from '../../../base/errors.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { withFixedBatch } from '../../../onnx/graph/batch/fixed-batch.js';
import { resolveNames } from '../../../onnx/graph/names/resolve-names.js';
import { resolveTensors } from '../../../onnx/graph/names/resolve-tensors.js';
import { isPlain } from '../../../onnx/graph/rewrite/feature-parts.js';
import {
  cutGraph,
  interiorInputs,
  isUncut,
  outputsOf,
  wholeCut,
  type Cut,
  type CutOutput,
} from '../../../onnx/graph/rewrite/prune.js';
import {
  withRequestedParts,
  type KnownValues,
  type TypeOf,
} from '../../../onnx/graph/rewrite/requested-parts.js';
import { startRewrite, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { checkNodeNames } from '../../../onnx/graph/rewrite/tidy.js';
import type { MeasuredTokens } from '../../../onnx/graph/rewrite/token-grid.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import { checkInputSizes } from '../open/input-sizes.js';
import { modelInternals } from '../open/model-state.js';
import { placesOf, tokensOf } from '../prune/model-tokens.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeInputs, describeValue } from '../open/value-info.js';
import { typeFrom, type InferredType } from '../prune/feature-info.js';
import { fillByRules, readDerived } from '../prune/fill-types.js';
import type { Prepared, RewriteRequest, Unstated } from '../prune/prepared.js';
import { fillBySession, inferTypes } from './infer-types.js';
import { measureTokens } from './measure-tokens.js';
import { openBatch } from './open-batch.js';
import type { SessionHolder } from './session-holder.js';

/** Prepares a rewrite. A session is asked only for what a part needs and the file does not state; for no types if they are `inferred`. */
export async function prepareRewrite(
  request: RewriteRequest,
  sessions: SessionHolder,
  inferred?: ReadonlyMap<Value, InferredType>,
): Promise<Prepared> {
  const { model } = sessions;
  const cut = cutToRequest(model, request);
  const typeOf = await lookUpTypes(neededTypes(cut, request), request, sessions, inferred);
  if (!request.tidy) checkNodeNames(cut);
  const started = startRewrite(cut, request.tidy, (value) => inputType(value, typeOf));
  checkInputSizes(request.inputSizes, [...model.inputs, ...describeInputs(started)]);
  const measured = await measureUnproven(started, request, typeOf, sessions);
  const known: KnownValues = {
    typeOf,
    measured,
    tokensOf: (value, dims) => tokensOf(model, value, dims),
    placesOf: (value, size) => placesOf(model, value, size),
  };
  // A file of which nothing is cut comes back as it is.
  const isOpen = request.fillTypes && !(isUncut(cut) && request.naming === 'tensors');
  const [filled, unstated] = isOpen ? await stateTypes(started, request, typeOf, sessions) : [started];
  const opened = request.batch === 'dynamic' ? await openBatch(filled, request.inputSizes, sessions) : filled;
  const rewrite = withRequestedParts(opened, request, known, request.outputs.length);
  return { model, request, ...known, rewrite, ...(unstated && { unstated }) };
}

/**
 * The same request on the whole graph: nothing is cut away, so that values can be compared. The tensors that the request
 * feeds are additional outputs here, after the requested ones.
 */
export function prepareWhole(prepared: Prepared): Prepared {
  const {
    request,
    typeOf,
    rewrite: { cut, computedInputs, batch },
  } = prepared;
  const { graph } = cut;
  const fed = outputsOf(interiorInputs(cut), 'input');
  const whole = wholeCut(graph, [...cut.outputs, ...fed]);
  // Tidy even if the request is not: the dropped part may hold names or an order that ONNX Runtime refuses.
  const started = startRewrite(whole, true, (value) => inputType(value, typeOf));
  const fixed = batch && batch.mode !== 'as-exported' ? withFixedBatch(started, batch.exported) : started;
  const named = request.outputs.length;
  const rewrite = withRequestedParts(fixed, request, prepared, named, [...computedInputs][0]);
  return { ...prepared, rewrite };
}

/** Names → the part of the graph that they need. */
function cutToRequest(model: OnnxModel, request: RewriteRequest): Cut {
  const { graph } = modelInternals.of(model);
  const keys = request.outputs.map((output) => output.key);
  const outputs = resolveNames(
    graph,
    request.outputs.map((output) => output.request),
    keys,
  ).map((found, i): CutOutput => Object.assign(found, { key: keys[i]! }));
  const inputs = request.inputs && readCutInputs(resolveTensors(graph, request.inputs));
  return cutGraph(graph, { outputs, inputs, allowNonTensor: request.allowNonTensor });
}

/** The tensors to feed. A weight is refused, because its value is in the file. */
function readCutInputs(resolved: readonly { readonly request: string; readonly value: Value }[]): Value[] {
  for (const { request, value } of resolved) {
    if (!value.initializer) continue;
    throw new TapirError(
      'INPUT_MISMATCH',
      `"${request}" is a weight (tensor "${value.name}"): its value is in the file; only graph inputs and computed tensors can be "inputs"`,
      { details: { input: request, expected: 'a graph input or a computed tensor', actual: 'a weight' } },
    );
  }
  return resolved.map(({ value }) => value);
}

/** What must be known: of interior inputs, and of outputs that parts are added to. */
function neededTypes(cut: Cut, { partsOf }: RewriteRequest): Value[] {
  const outputs = cut.outputs.filter(({ key }) => !isPlain(partsOf(key)));
  return [...interiorInputs(cut), ...outputs.map((output) => output.value)];
}

/** States the types of outputs. A session tells the rest now if parts or a dynamic batch follow from it; else the file is told it when it is written. */
async function stateTypes(
  started: Rewrite,
  { partsOf, batch, inputSizes }: RewriteRequest,
  typeOf: TypeOf,
  sessions: SessionHolder,
): Promise<readonly [Rewrite, Unstated?]> {
  const [filled, left] = await fillByRules(started, typeOf, sessions.model);
  const values = new Set([...left.open, ...left.doubtful]);
  if (values.size === 0) return [filled];
  const needing = started.outputs.filter(({ key, levels }) => levels || !isPlain(partsOf(key)));
  const isNeeded = batch === 'dynamic' || needing.some(({ value }) => values.has(value));
  return isNeeded ? [await fillBySession(filled, left, inputSizes, sessions)] : [filled, left];
}

/** Types by the file, else as `inferred`, else by rules, else by a session. */
async function lookUpTypes(
  values: readonly Value[],
  { inputSizes }: RewriteRequest,
  sessions: SessionHolder,
  inferred?: ReadonlyMap<Value, InferredType>,
): Promise<TypeOf> {
  if (inferred) return (value) => typeFrom(value, inferred.get(value));
  const unknown = values.filter((value) => !typeFrom(value, undefined)?.dims);
  const derived = await readDerived(sessions.model, unknown);
  const open = unknown.filter((value) => !derived.has(value));
  const told = await inferTypes(open, inputSizes, sessions);
  return (value) => derived.get(value) ?? typeFrom(value, told.get(value));
}

/** Measures the tokens of outputs whose patches are asked for, where they are not proven and their number is open. */
async function measureUnproven(
  rewrite: Rewrite,
  { partsOf, inputSizes }: RewriteRequest,
  typeOf: TypeOf,
  sessions: SessionHolder,
): Promise<Prepared['measured']> {
  const found = new Map<Value, MeasuredTokens>();
  for (const { key, value } of rewrite.outputs) {
    const { part, tokensToMap, pool } = partsOf(key);
    const { dims = null } = typeOf(value) ?? {};
    const isOpen = dims === null || (dims.length === 3 && typeof dims[1] !== 'number');
    const needsPatches = part === 'patches' || tokensToMap || pool === 'mean-tokens';
    if (!needsPatches || !isOpen || found.has(value) || tokensOf(sessions.model, value, dims)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one question at a time
    const measured = await measureTokens(rewrite, value, inputSizes, sessions);
    if (measured) found.set(value, measured);
  }
  return found;
}

function inputType(value: Value, typeOf: TypeOf): TensorType {
  const type = typeOf(value);
  if (type) return type;
  throw new TapirError(
    'INPUT_MISMATCH',
    `"${value.name}" cannot be an input: it is not a tensor, or its type is unknown; choose another tensor as "inputs"`,
    { details: { input: value.name, expected: 'a tensor', actual: describeValue(value).dtype ?? 'unknown' } },
  );
}
