/** Weights that a session can read from the model's file, because it no longer needs the file once it is open. */
import type { Node, Value } from '../../graph/graph.js';
import type { ScannedTensor } from '../../onnx/scan/scan-value.js';
import { ELEMENT_TYPE } from '../../onnx/wire/schema.js';
import type { Rewrite } from '../../graph/rewrite/rewrite.js';
import type { SessionOptions } from '../../runtime/lanes/session-options.js';

/** Smaller weights travel with the model: mapping a file costs a page and a call. */
const LEAST_BYTES = 16 * 1024;
/** onnxruntime lays the filters of a convolution out in blocks if their sizes are multiples of this. */
const BLOCK = 16;

/**
 * The weights that onnxruntime converts while it opens a model, and so no longer reads from the file: packed matrices, and filters
 * in blocks. Other weights would stay mapped, and writing to the file later would change results or crash the process.
 *
 * @returns Initializers with four bytes per element; whether their bytes lie in the file in one piece is not known here.
 */
export function repackedWeights(
  { cut, outputs, retyped }: Rewrite,
  session: SessionOptions,
): ScannedTensor[] {
  const { graphOptimizationLevel: level, extra } = session;
  // The user decides how weights are laid out.
  if (level === 'disabled' || /prepack|external_initializers/.test(JSON.stringify(extra))) return [];
  const isInBlocks = process.arch === 'x64' && (level === 'all' || level === 'layout');
  const given = new Set(outputs.map(({ value }) => value));
  return [...cut.values].flatMap((value) => {
    const { initializer } = value;
    if (initializer?.elemType !== ELEMENT_TYPE.float32 || initializer.external || initializer.parts)
      return [];
    if (retyped.has(initializer)) return [];
    // A weight that can be fed is not constant.
    if (value.input || value.producer || given.has(value)) return [];
    if (bytesOf(initializer) < LEAST_BYTES) return [];
    const uses = value.uses.filter((node) => cut.nodes.has(node));
    const [use, ...others] = uses;
    if (!use || others.length > 0 || !isItsWeight(value, use)) return [];
    return isRepacked(use, initializer, isInBlocks) ? [initializer] : [];
  });
}

export function bytesOf({ dims }: ScannedTensor): number {
  return dims.reduce((product, size) => product * size, Float32Array.BYTES_PER_ELEMENT);
}

/** Whether a value is the second input of a node, and nothing else of it. */
function isItsWeight(value: Value, { inputs, scanned }: Node): boolean {
  const isOnce = inputs.filter((input) => input === value).length === 1;
  return inputs[1] === value && isOnce && scanned.bodies === undefined;
}

function isRepacked({ domain, opType, inputs }: Node, { dims }: ScannedTensor, isInBlocks: boolean): boolean {
  if (domain !== '') return false;
  if (opType === 'MatMul' || opType === 'Gemm') return dims.length === 2 && dims.every((size) => size > 1);
  if (opType !== 'Conv' || !isInBlocks || dims.length !== 4) return false;
  const [filters, channels] = dims as [number, number];
  return filters % BLOCK === 0 && channels % BLOCK === 0 && inputs.length <= 3;
}
