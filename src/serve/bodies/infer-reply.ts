/** A reply of the Open Inference Protocol: JSON, followed by the bytes of outputs that were requested as bytes. */
import { elementsToJson } from '../../tensor/json-elements.js';
import { createData, elementCount, makeTensor, type Tensor } from '../../tensor/tensor.js';
import { DATATYPES, encodeBinaryData } from './datatypes.js';
import type { ImageFeatures } from '../batches/image-batcher.js';
import type { WantedOutput } from './infer-request.js';

/** A reply's body. */
export interface EncodedReply {
  readonly body: Buffer;
  /** Bytes of the JSON; null if nothing follows it. */
  readonly headerLength: number | null;
}

/** Encodes outputs in the requested order. */
export function encodeReply(
  facts: { readonly model: string; readonly version: string; readonly id: string | undefined },
  wanted: readonly WantedOutput[],
  tensors: Readonly<Record<string, Tensor>>,
): EncodedReply {
  const binary: Uint8Array[] = [];
  const outputs = wanted.map(({ name, isBinary }) => {
    const tensor = tensors[name]!;
    const head = `"name":${JSON.stringify(name)},"datatype":"${DATATYPES[tensor.dtype]}","shape":[${tensor.dims.join(',')}]`;
    if (!isBinary) return `{${head},"data":[${elementsToJson(tensor.dtype, tensor.data)}]}`;
    const bytes = encodeBinaryData(tensor);
    binary.push(bytes);
    return `{${head},"parameters":{"binary_data_size":${bytes.byteLength}}}`;
  });
  const id = facts.id === undefined ? '' : `"id":${JSON.stringify(facts.id)},`;
  const named = `"model_name":${JSON.stringify(facts.model)},"model_version":"${facts.version}"`;
  const json = Buffer.from(`{${named},${id}"outputs":[${outputs.join(',')}]}`);
  return { body: Buffer.concat([json, ...binary]), headerLength: binary.length > 0 ? json.length : null };
}

/** Stacks the features of images into one tensor per output, with the images along the first axis. */
export function stackRows(rows: readonly ImageFeatures[]): Record<string, Tensor> {
  const [first] = rows;
  if (!first) return {};
  return Object.fromEntries(
    Object.entries(first).map(([key, { dtype, dims }]) => {
      const size = elementCount(dims);
      const data = createData(dtype, rows.length * size);
      rows.forEach((row, i) => {
        const from = row[key]!.data;
        if (Array.isArray(data)) data.splice(i * size, size, ...(from as string[]));
        // Equal dtypes have the same kind of array.
        else (data as Uint8Array).set(from as Uint8Array, i * size);
      });
      return [key, makeTensor(dtype, [rows.length, ...dims], data)];
    }),
  );
}
