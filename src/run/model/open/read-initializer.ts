/** Reading the values of an initializer. */
import { TapirError } from '../../../base/errors.js';
import { findExternalFiles, listExternal } from '../../../onnx/file/external-data.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { elementTypeName } from '../../../onnx/file/wire/schema.js';
import { readPayload } from '../../../onnx/file/tensor-payload.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';
import { widenBfloat16 } from '../../../onnx/tensor/bfloat16.js';
import { createData, elementCount, isDType, makeTensor, type Tensor } from '../../../onnx/tensor/tensor.js';
import type { ModelState } from './model-state.js';

/** Reads the bytes of an initializer's elements, little-endian, in C order. Throws `MODEL_CHANGED`, `MODEL_MALFORMED`, `EXTERNAL_DATA_UNSAFE`. */
export async function readInitializerBytes(
  model: ModelState,
  tensor: ScannedTensor,
): Promise<Uint8Array<ArrayBuffer>> {
  return model.withSource((source) => readElements(new WireReader(source), model, tensor));
}

/** Reads the same bytes from a source that is open. */
export function readElements(
  reader: WireReader,
  { folder }: ModelState,
  tensor: ScannedTensor,
): Uint8Array<ArrayBuffer> {
  return readPayload(reader, tensor, findExternalFiles(listExternal({ initializers: [tensor] }), folder));
}

/** Reads an initializer. bfloat16 becomes float32. Throws as {@link readInitializerBytes}. */
export async function readInitializer(model: ModelState, tensor: ScannedTensor): Promise<Tensor> {
  const { buffer } = await readInitializerBytes(model, tensor);
  const dtype = elementTypeName(tensor.elemType);
  if (dtype === 'bfloat16') return makeTensor('float32', tensor.dims, widenBfloat16(buffer));
  if (!isDType(dtype)) {
    const reason = `no array holds elements of type ${dtype ?? tensor.elemType}`;
    throw new TapirError('INPUT_MISMATCH', `"${tensor.name}" cannot be read as a tensor: ${reason}`, {
      details: {
        input: tensor.name,
        expected: 'a type that arrays hold',
        actual: dtype ?? String(tensor.elemType),
      },
    });
  }
  return makeTensor(dtype, tensor.dims, createData(dtype, elementCount(tensor.dims), buffer));
}
