/** The element types that runs give: float32 of every float, unless an output is kept as the file has it. */
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { oneOf, unchecked, type Field } from '../../base/options.js';
import { tensorType, type Graph } from '../../onnx/graph/graph.js';
import type { FeatureInfo } from '../../run/model/prune/feature-info.js';
import {
  OUTPUT_DTYPES,
  readPerOutput,
  type OutputDtype,
  type PerOutput,
} from '../../run/model/prune/rewrite-options.js';
import { ELEMENT_TYPE, elementTypeNumber, isFloatType } from '../../onnx/file/wire/schema.js';
import { makeTensor, type DType, type Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { floatsOf } from '../../onnx/tensor/widen.js';

/** The option of all that run a model. */
export interface OutputDtypeOption {
  /**
   * Element type of the outputs. `float32` converts float16, bfloat16 and float64, and refuses an output that is no float, such as token
   * ids. `keep` gives every output as the file has it. `float16` adds a Cast to the graph. For all outputs, or by key.
   * @default 'float32'
   */
  readonly outputDtype: PerOutput<OutputDtype>;
}

export const OUTPUT_DTYPE: Field<PerOutput<OutputDtype>> = unchecked('float32');

/** The element type of outputs that an option asks for, as far as the compiler can tell. */
export type DTypeOf<Asked> = Asked extends 'float32' | 'float16' ? Asked : DType;

/** The element type asked for each output. */
function readOutputDtypes(
  asked: PerOutput<OutputDtype>,
  keys: readonly string[],
): (key: string) => OutputDtype {
  return readPerOutput('outputDtype', asked, keys, oneOf(OUTPUT_DTYPES, 'float32'));
}

/**
 * The element types that the graph itself makes. float32 is made of what the session gives, so that the model stays as the file has it; only
 * bfloat16, which no session gives, needs a Cast. Throws `OPTION_INVALID`.
 */
export function dtypesInGraph(
  asked: PerOutput<OutputDtype>,
  keys: readonly string[],
  graph: Graph,
): ReadonlyMap<string, OutputDtype> {
  const dtypeOf = readOutputDtypes(asked, keys);
  const isKept = !usesBfloat16(graph);
  const inGraph = (dtype: OutputDtype): OutputDtype => (dtype === 'float32' && isKept ? 'keep' : dtype);
  return new Map(keys.map((key) => [key, inGraph(dtypeOf(key))]));
}

function usesBfloat16({ values }: Graph): boolean {
  return [...values.values()].some(
    (value) => (value.initializer ?? tensorType(value))?.elemType === ELEMENT_TYPE.bfloat16,
  );
}

/**
 * Describes outputs as runs give them, from what the session has. Throws `OUTPUT_MISFIT` for an output that is no float and not kept, and
 * `OPTION_INVALID` for float16 of a model that runs as it is.
 */
export function givenOutputs(
  kept: readonly FeatureInfo[],
  asked: PerOutput<OutputDtype>,
): readonly FeatureInfo[] {
  const keys = kept.map(({ name }) => name);
  const dtypeOf = readOutputDtypes(asked, keys);
  return kept.map((output) => {
    const wanted = dtypeOf(output.name);
    if (wanted === 'keep' || wanted === output.dtype) return output;
    if (wanted === 'float16')
      throw invalidOption('outputDtype', '"float32" or "keep" for a model that runs as it is', wanted);
    if (output.dtype !== null) checkFloat(output.name, output);
    return { ...output, dtype: wanted };
  });
}

/** A tensor in the element type that its output is described with. Throws `OUTPUT_MISFIT` as {@link givenOutputs}, for a type that is known only now. */
export function asDescribed({ name, dtype }: TensorInfo, tensor: Tensor): Tensor {
  if (dtype !== 'float32' || tensor.dtype === 'float32') return tensor;
  checkFloat(name, tensor);
  return makeTensor('float32', tensor.dims, floatsOf(tensor)!);
}

function checkFloat(output: string, { dtype, dims }: Omit<TensorInfo, 'name'>): void {
  if (isFloatType(elementTypeNumber(dtype!) ?? 0)) return;
  const actual = `${dtype} [${(dims ?? ['?']).map((size) => size ?? '?').join(', ')}]`;
  const reason = 'no float, and outputs are float32 by default';
  throw new TapirError(
    'OUTPUT_MISFIT',
    `output "${output}" is ${actual}: ${reason}; with outputDtype: 'keep' every output comes as the file has it`,
    { details: { output, actual, reason } },
  );
}
