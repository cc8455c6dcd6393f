/** States the types of outputs in a rewrite, as the file does or as operators' rules give them. */
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { deriveTypes } from '../../../onnx/graph/derived-types.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { readConstants } from '../../../onnx/graph/read-constants.js';
import type { TypeOf } from '../../../onnx/graph/rewrite/requested-parts.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeInputs } from '../open/value-info.js';
import { correctedType, typeFrom } from './feature-info.js';
import type { Unstated } from './prepared.js';

/** Types by the operators' rules; see {@link deriveTypes}. */
export async function readDerived(
  model: OnnxModel,
  values: readonly Value[],
  isAnew = false,
): Promise<ReadonlyMap<Value, TensorType>> {
  if (values.length === 0) return new Map();
  const { graph, withSource } = modelInternals.of(model);
  return withSource((source) => deriveTypes(graph, readConstants(new WireReader(source)), values, isAnew));
}

/** Lists what is to be found out about the outputs of a rewrite. */
function listUnstated(rewrite: Rewrite, known: TypeOf): Unstated {
  const values = [...new Set(rewrite.outputs.map(({ value }) => value))];
  const isOpenBatch = describeInputs(rewrite).some(
    ({ dims }) => dims !== null && dims.length > 1 && typeof dims[0] !== 'number',
  );
  const statedSize = (value: Value): unknown => typeFrom(value, undefined)?.dims?.[0];
  return {
    open: values.filter((value) => !known(value)?.dims),
    doubtful: values.filter((value) => isOpenBatch && typeof statedSize(value) === 'number'),
  };
}

/** States the types that are `known`, and those that rules tell. What is left is returned: only a session tells it. */
export async function fillByRules(
  rewrite: Rewrite,
  known: TypeOf,
  model: OnnxModel,
): Promise<readonly [Rewrite, Unstated]> {
  const { open, doubtful } = listUnstated(rewrite, known);
  const types = await readDerived(model, open);
  const anew = await readDerived(model, doubtful, true);
  const filled = withTypes(rewrite, (value) => {
    if (typeFrom(value, undefined)?.dims) return correctedType(value, anew.get(value));
    return types.get(value) ?? (open.includes(value) ? undefined : known(value));
  });
  const isLeft = (value: Value): boolean => !types.has(value) && !anew.has(value);
  return [filled, { open: open.filter(isLeft), doubtful: doubtful.filter(isLeft) }];
}

/** States types of outputs that have none yet. */
export function withTypes(rewrite: Rewrite, typeOf: (value: Value) => TensorType | undefined): Rewrite {
  const outputs = rewrite.outputs.map((output) => ({ ...output, type: output.type ?? typeOf(output.value) }));
  return { ...rewrite, outputs };
}
