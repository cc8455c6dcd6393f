/** The columns of the outputs, before there are any rows. */
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import type { Extractor } from '../../extract/extractor.js';
import { elementCount, type DType, type Tensor } from '../../tensor/tensor.js';
import { runImages, writtenDims } from '../embed/embed-batches.js';
import type { EmbedSetup } from '../embed/embed-options.js';
import type { FeatureColumn } from '../../tensor/feature-column.js';
import { storedTensor, storedType } from '../files/stored-tensor.js';

/**
 * Describes the columns of an extractor's outputs. If the model does not state all sizes, runs a black image to find them.
 *
 * @param half - Write float32 outputs as float16.
 * @throws {@link TapirError} `OPTION_INVALID` for an output of strings; those of `run`.
 */
export async function describeColumns(
  extractor: Extractor,
  setup: EmbedSetup,
  half: boolean,
): Promise<readonly FeatureColumn[]> {
  let known = extractor.outputs.map(({ name, dtype, dims }) => ({
    key: name,
    dtype,
    dims: dims && writtenDims(dims, setup).slice(1),
  }));
  if (known.some(({ dtype, dims }) => dtype === null || !isStatic(dims))) {
    const pixels = new Uint8Array(new SharedArrayBuffer(setup.input.imageBytes));
    const features = await runImages(extractor, pixels, [0], setup);
    known = Object.entries(features).map(([key, { dtype, dims }]) => ({ key, dtype, dims: dims.slice(1) }));
  }
  return known.map((column) => {
    const dtype = storedType(column.dtype as DType, half);
    if (dtype === 'string')
      throw invalidOption('returnNodes', 'made of numeric outputs to write them', dtype);
    const dims = column.dims as readonly number[];
    return { key: column.key, dtype, dims, elements: elementCount(dims) };
  });
}

function isStatic(dims: readonly unknown[] | null): boolean {
  return dims !== null && dims.every((size) => typeof size === 'number');
}

/**
 * Converts the features of a batch to the form that is written.
 *
 * @throws {@link TapirError} `OUTPUT_NOT_BATCHED` if the rows do not match the columns.
 */
export function storedFeatures(
  features: Readonly<Record<string, Tensor>>,
  columns: readonly FeatureColumn[],
  half: boolean,
): Readonly<Record<string, Tensor>> {
  const stored: Record<string, Tensor> = {};
  for (const { key, dtype, dims } of columns) {
    const tensor = features[key];
    if (!tensor) continue;
    stored[key] = storedTensor(tensor, half);
    if (stored[key].dtype === dtype && tensor.dims.slice(1).join() === dims.join()) continue;
    throw new TapirError(
      'OUTPUT_NOT_BATCHED',
      `output "${key}" has rows of [${tensor.dims.slice(1).join(', ')}] ${tensor.dtype} instead of [${dims.join(', ')}] ${dtype}; ask for another tensor`,
      { details: { output: key, dims: tensor.dims, rows: tensor.dims[0]! } },
    );
  }
  return stored;
}
