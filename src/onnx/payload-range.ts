/** The bytes of an external tensor in its file. */
import { statSync } from 'node:fs';
import { unsafeWeights, type ExternalFiles, type ExternalTensor } from './external-data.js';
import { ELEMENT_BITS } from './wire/schema.js';

/** A byte range of a file. */
export interface PayloadRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/**
 * The range of a tensor's payload, checked against the sizes of the tensor and of the file.
 *
 * @throws {@link TapirError} `EXTERNAL_DATA_UNSAFE` if offset or length do not fit.
 */
export function payloadRange(item: ExternalTensor, { pathOf }: ExternalFiles): PayloadRange {
  const { tensor, location } = item;
  const path = pathOf.get(location)!;
  const bits = ELEMENT_BITS.get(tensor.elemType);
  const elements = tensor.dims.reduce((product, size) => product * size, 1);
  if (bits === undefined || tensor.dims.some((size) => size < 0) || !Number.isSafeInteger(elements * bits))
    throw unsafeWeights(
      item,
      `a tensor of type ${tensor.elemType} and dims [${tensor.dims.join(', ')}] has no size`,
    );
  const wanted = Math.ceil((elements * bits) / 8);
  const start = readBytes(item, 'offset') ?? 0;
  const length = readBytes(item, 'length') ?? wanted;
  if (length !== wanted)
    throw unsafeWeights(item, `its length is ${length} bytes, and the tensor has ${wanted}`);
  const { size } = statSync(path);
  if (start + length > size)
    throw unsafeWeights(item, `it ends at byte ${start + length}, and the file has ${size}`);
  return { path, start, end: start + length };
}

/** An entry of `external_data` as a number of bytes. */
function readBytes(item: ExternalTensor, key: 'offset' | 'length'): number | undefined {
  const text = item.tensor.external?.get(key);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value)) return value;
  throw unsafeWeights(item, `its ${key} "${text}" is not a number of bytes`);
}
