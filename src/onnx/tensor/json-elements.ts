/** Writes elements of tensors as JSON text, for rows on pipes and replies of the service. */
import { doubleToJson, floatsToJson } from '../../base/shortest-float.js';
import { fromFloat16Bits } from './float16.js';
import { elementCount, type DType, type TensorData } from './tensor.js';

/** Writes elements as JSON, commas between them: a number with the fewest digits that read back as the same; infinities and NaN as `null`. */
export function elementsToJson(
  dtype: DType,
  data: TensorData,
  start: number = 0,
  end: number = data.length,
): string {
  if (Array.isArray(data))
    return data
      .slice(start, end)
      .map((text) => JSON.stringify(text))
      .join(',');
  // The dtype determines the kind of array.
  const part = data.subarray(start, end);
  if (dtype === 'float32') return floatsToJson(part as Float32Array);
  if (dtype === 'float16') return floatsToJson(Float32Array.from(part as Uint16Array, fromFloat16Bits));
  if (dtype === 'float64') return Array.from(part as Float64Array, doubleToJson).join(',');
  if (dtype === 'bool') return Array.from(part as Uint8Array, (bit) => bit !== 0).join(',');
  return part.join(',');
}

/** Writes a tensor whose elements begin at `start` as JSON: arrays nested by `dims`, or a single value if there are no dims. */
export function nestedToJson(dtype: DType, data: TensorData, start: number, dims: readonly number[]): string {
  const [size, ...inner] = dims;
  const elements = elementCount(inner);
  if (size === undefined) return elementsToJson(dtype, data, start, start + 1);
  if (inner.length === 0) return `[${elementsToJson(dtype, data, start, start + size)}]`;
  const items = Array.from({ length: size }, (_, i) =>
    nestedToJson(dtype, data, start + i * elements, inner),
  );
  return `[${items.join(',')}]`;
}
