/** Measures sizes and constants of a graph, from the file, a session and one run. Opening a fixed batch needs them. */
import type { Value } from '../../../onnx/graph/graph.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { BatchFacts } from '../../../onnx/graph/batch/batch-walk.js';
import { fetchValues, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { ELEMENT_TYPE, elementTypeNumber } from '../../../onnx/file/wire/schema.js';
import type { WireReader } from '../../../onnx/file/wire/wire.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { readConstants } from '../../../onnx/graph/read-constants.js';
import { runMadeUp } from './run-made-up.js';
import type { SessionHolder } from './session-holder.js';

/** The most tensors that one run fetches. More would need more memory, fewer would need more runs. */
const FETCHES = 64;
/** Longer lists of integers hold neither sizes nor axes. */
const MAX_LIST = 64;

/** Facts about a tensor of the cut. */
interface Measured {
  readonly elemType: number | undefined;
  readonly dims: readonly number[];
  /** The elements, if it is a short list of integers that depends on no input. */
  readonly integers: readonly number[] | undefined;
}

/** Combines measured facts with those in the file. `reader` reads the open source. */
export function readFacts(reader: WireReader, measured: ReadonlyMap<Value, Measured>): BatchFacts {
  const { attributesOf, integersOf } = readConstants(reader);
  return {
    attributesOf,
    dimsOf: (value) => value.initializer?.dims ?? measured.get(value)?.dims,
    elemTypeOf: (value) => value.initializer?.elemType ?? measured.get(value)?.elemType,
    integersOf: (value) => integersOf(value) ?? measured.get(value)?.integers,
  };
}

/** Measures all tensors of a cut: takes the sizes that ONNX Runtime infers, and runs the graph on made-up inputs for all others. */
export async function measureValues(
  rewrite: Rewrite,
  given: CheckedSizes,
  sessions: SessionHolder,
): Promise<Map<Value, Measured>> {
  const { graph, nodes } = rewrite.cut;
  const roles = nodeRoles(graph);
  const asked = [...rewrite.cut.values].filter((value) => value.producer || value.input);
  const replica = await sessions.open({ rewrite: fetchValues(rewrite, asked) });
  const byName = new Map(replica.facts.outputs.map((output) => [output.name, output]));
  const measured = new Map<Value, Measured>();
  const unknown: Value[] = [];
  for (const value of asked) {
    const info = byName.get(value.name);
    if (!info?.isTensor) continue;
    const elemType = info.dtype === null ? undefined : elementTypeNumber(info.dtype);
    const dims = info.dims.filter((size) => typeof size === 'number');
    const { producer } = value;
    const isList =
      producer !== undefined &&
      nodes.has(producer) &&
      producer.opType !== 'Constant' &&
      roles.get(producer) === 'constant' &&
      (elemType === ELEMENT_TYPE.int64 || elemType === ELEMENT_TYPE.int32) &&
      dims.length < 2;
    // Empty dims mean a scalar or an unknown rank.
    if (isList || dims.length === 0 || dims.length < info.dims.length) unknown.push(value);
    else measured.set(value, { elemType, dims, integers: undefined });
  }
  await runMadeUp({ rewrite, given }, async (feeds) => {
    for (let from = 0; from < unknown.length; from += FETCHES) {
      const values = unknown.slice(from, from + FETCHES);
      const names = values.map((value) => value.name);
      // oxlint-disable-next-line no-await-in-loop -- one run at a time bounds the memory
      const tensors = await replica.run(feeds.map(wholePart), names);
      for (const [i, value] of values.entries()) {
        const { dtype, dims } = tensors[i]!;
        const isConstant = value.producer !== undefined && roles.get(value.producer) === 'constant';
        const integers = isConstant ? integersOf(tensors[i]!) : undefined;
        measured.set(value, { elemType: elementTypeNumber(dtype), dims, integers });
      }
    }
  });
  return measured;
}

/** The elements of a short list of integers; undefined for any other tensor. */
export function integersOf({ dtype, data }: Tensor): readonly number[] | undefined {
  const isList = data.length <= MAX_LIST && (dtype === 'int64' || dtype === 'int32');
  return isList ? Array.from(data as Iterable<number | bigint>, Number) : undefined;
}
