/** The inputs that hold the batch of a graph, and the sizes that they state for it. */
import type { TensorType } from '../../file/wire/write-model.js';
import { tensorType, type Value } from '../graph.js';
import { keptInputs, type Rewrite } from '../rewrite/rewrite.js';

/** An input of two or more axes. A vector is usually not a batch but, for example, a list of sizes. */
interface BatchInput {
  readonly value: Value;
  readonly type: TensorType & { readonly dims: NonNullable<TensorType['dims']> };
}

/** The inputs that may hold the batch on their first axis, in the order in which they are fed. */
function listBatchInputs(rewrite: Rewrite): BatchInput[] {
  const { cut, restated } = rewrite;
  const kept = keptInputs(rewrite).map((value) => ({
    value,
    type: restated.get(value) ?? tensorType(value),
  }));
  const added = rewrite.inputs.map((type) => ({ value: cut.graph.values.get(type.name), type }));
  return [...kept, ...added].flatMap(({ value, type }) => {
    const { elemType, dims } = type ?? {};
    return value && dims && dims.length > 1 ? [{ value, type: { elemType: elemType!, dims } }] : [];
  });
}

/** The inputs whose batch is a number. */
export function listFixedInputs(rewrite: Rewrite): { value: Value; batch: number }[] {
  return listBatchInputs(rewrite).flatMap(({ value, type: { dims } }) => {
    const [batch] = dims;
    return typeof batch === 'number' && batch > 0 ? [{ value, batch }] : [];
  });
}

/** States a batch where inputs leave it open: that of a graph which an exporter fixed inside only. */
export function withFixedBatch(rewrite: Rewrite, batch: number): Rewrite {
  const open = listBatchInputs(rewrite).filter(({ type }) => typeof type.dims[0] !== 'number');
  const types = new Map(
    open.map(({ value, type }): [Value, TensorType] => [
      value,
      { ...type, dims: [batch, ...type.dims.slice(1)] },
    ]),
  );
  const inputs = rewrite.inputs.map((input) => ({
    ...input,
    ...types.get(rewrite.cut.graph.values.get(input.name)!),
  }));
  return { ...rewrite, inputs, restated: new Map([...rewrite.restated, ...types]) };
}
