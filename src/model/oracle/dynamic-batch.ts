/** A fixed batch made dynamic: the facts that the rewrite needs, from the file and from ONNX Runtime. */
import type { Node, Value } from '../../graph/graph.js';
import { nodeRoles } from '../../graph/roles.js';
import { readAttributes, type Attribute } from '../../onnx/attributes.js';
import { ELEMENT_TYPE, elementTypeNumber } from '../../onnx/schema.js';
import { readIntegers } from '../../onnx/tensor-integers.js';
import { WireReader } from '../../onnx/wire.js';
import { withDynamicBatch, type BatchFacts, type BatchResult } from '../../graph/rewrite/dynamic-batch.js';
import { cutGraph, type CutOutput } from '../../graph/rewrite/prune.js';
import { startRewrite, type Rewrite } from '../../graph/rewrite/rewrite.js';
import type { Tensor } from '../../tensor/tensor.js';
import { wholePart } from '../../tensor/tensor-part.js';
import { stateOf, type OnnxModel } from '../open-model.js';
import { seededFeeds } from './seeded-feeds.js';
import { openExact } from '../session-model.js';
import { describeInputs } from '../value-info.js';

/** Tensors fetched by one run: a compromise between memory and runs. */
const FETCHES = 64;
/** Longer lists are no sizes or axes. */
const MAX_LIST = 64;

/**
 * Opens the batch of a rewrite that only cuts; not verified.
 *
 * @throws {@link TapirError} `SESSION_FAILED`, `RUN_FAILED` if the graph as it is does not run; `DEPENDENCY_MISSING`.
 */
export async function makeBatchDynamic(model: OnnxModel, rewrite: Rewrite): Promise<BatchResult> {
  const measured = await measureValues(model, rewrite);
  return stateOf(model).withSource((source) => {
    const reader = new WireReader(source);
    const attributes = new Map<Node, ReadonlyMap<string, Attribute>>();
    const attributesOf = (node: Node): ReadonlyMap<string, Attribute> => {
      const read = attributes.get(node) ?? readAttributes(reader, node.scanned);
      attributes.set(node, read);
      return read;
    };
    const facts: BatchFacts = {
      attributesOf,
      dimsOf: (value) => value.initializer?.dims ?? measured.get(value)?.dims,
      elemTypeOf: (value) => value.initializer?.elemType ?? measured.get(value)?.elemType,
      integersOf: (value) => constantOf(reader, attributesOf, value) ?? measured.get(value)?.integers,
    };
    return withDynamicBatch(rewrite, facts);
  });
}

/** The elements of an initializer or Constant, behind any Identity. */
function constantOf(
  reader: WireReader,
  attributesOf: BatchFacts['attributesOf'],
  value: Value,
): readonly number[] | undefined {
  let source = value;
  while (source.producer?.opType === 'Identity' && source.producer.inputs[0])
    [source] = source.producer.inputs as [Value];
  if (source.initializer) return readIntegers(reader, source.initializer);
  if (source.producer?.opType !== 'Constant') return undefined;
  const attributes = attributesOf(source.producer);
  const tensor = attributes.get('value')?.tensor;
  if (tensor) return readIntegers(reader, tensor);
  const int = attributes.get('value_int')?.int;
  return int === undefined ? attributes.get('value_ints')?.ints : [int];
}

interface Measured {
  readonly elemType: number | undefined;
  readonly dims: readonly number[];
  /** The elements, if they are a short list of integers that depends on no input. */
  readonly integers: readonly number[] | undefined;
}

/** Sizes of all tensors of the cut: those that ONNX Runtime infers, and for the rest those of a run on made-up inputs. */
async function measureValues(model: OnnxModel, rewrite: Rewrite): Promise<Map<Value, Measured>> {
  const { graph, inputs, nodes } = rewrite.cut;
  const roles = nodeRoles(graph);
  const asked = [...rewrite.cut.values].filter((value) => value.producer || value.input);
  const outputs = asked.map((value): CutOutput => ({
    request: value.name,
    key: value.name,
    value,
    why: 'size',
  }));
  const cut = cutGraph(graph, { outputs, inputs, allowNonTensor: true });
  const typeOf = new Map(rewrite.inputs.map((input) => [input.name, input]));
  const all = startRewrite(cut, ({ name }) => typeOf.get(name) ?? { elemType: 0, dims: null });
  const replica = await openExact(model, all);
  try {
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
      // No sizes stand for a scalar and for an unknown rank alike.
      if (isList || dims.length === 0 || dims.length < info.dims.length) unknown.push(value);
      else measured.set(value, { elemType, dims, integers: undefined });
    }
    const feeds = seededFeeds(describeInputs(all), 0, { rows: 1, runs: 1, named: {} });
    for (let from = 0; from < unknown.length; from += FETCHES) {
      const values = unknown.slice(from, from + FETCHES);
      // oxlint-disable-next-line no-await-in-loop -- one after the other bounds the memory
      const tensors = await replica.run(
        feeds.map(wholePart),
        values.map((value) => value.name),
      );
      for (const [i, value] of values.entries()) {
        const isConstant = value.producer !== undefined && roles.get(value.producer) === 'constant';
        measured.set(value, measure(tensors[i]!, isConstant));
      }
    }
    return measured;
  } finally {
    await replica.close();
  }
}

function measure({ dtype, dims, data }: Tensor, isConstant: boolean): Measured {
  const isList = isConstant && data.length <= MAX_LIST && (dtype === 'int64' || dtype === 'int32');
  return {
    elemType: elementTypeNumber(dtype),
    dims,
    integers: isList ? Array.from(data as Iterable<number | bigint>, Number) : undefined,
  };
}
