/** The elements of a tensor in a model, wherever the file has them: in one piece, in a typed field, or in another file. */
import { statSync } from 'node:fs';
import { unsafeWeights, type ExternalFiles, type ExternalTensor } from './external-data.js';
import type { ScannedTensor } from './scan/scan-value.js';
import type { FileRange } from './wire/chunk.js';
import { ELEMENT_BITS, TENSOR } from './wire/schema.js';
import { openFileSource } from './wire/source.js';
import type { WireReader } from './wire/wire.js';

/** Fields that hold elements as protobuf numbers, and the element types that each may hold. */
const TYPED_FIELDS: ReadonlyMap<number, 'float32' | 'float64' | 'integers'> = new Map([
  [TENSOR.floatData, 'float32'],
  [TENSOR.doubleData, 'float64'],
  [TENSOR.int32Data, 'integers'],
  [TENSOR.int64Data, 'integers'],
  [TENSOR.uint64Data, 'integers'],
]);

/** Bytes of a tensor's elements; undefined if its type has no whole bytes per element, or its sizes are damaged. */
export function payloadBytes({ elemType, dims }: ScannedTensor): number | undefined {
  const bits = ELEMENT_BITS.get(elemType);
  const count = dims.reduce((product, size) => product * size, 1);
  const bytes = bits === undefined ? NaN : (count * bits) / 8;
  return dims.every((size) => size >= 0) && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/**
 * Reads the elements of a tensor, little-endian, in C order.
 *
 * @param files - Where the files of external tensors are; needed for those only.
 * @returns A new array.
 * @throws {@link TapirError} `MODEL_MALFORMED` if the model does not hold as many elements as the dims say; `EXTERNAL_DATA_UNSAFE`.
 */
export function readPayload(
  reader: WireReader,
  tensor: ScannedTensor,
  files: ExternalFiles | undefined,
): Uint8Array<ArrayBuffer> {
  const wanted = payloadBytes(tensor);
  const damaged = (): Error =>
    reader.malformed(
      tensor.field.start,
      `the tensor "${tensor.name}" does not hold as many elements as its dims say`,
    );
  if (wanted === undefined) throw damaged();
  if (tensor.external && files) return readExternal(tensor, files);
  // The shortest way to store an element takes a byte, and the longest element has eight: nothing is allocated for dims that lie.
  if (wanted > 8 * (tensor.field.end - tensor.field.start)) throw damaged();
  const bytes = new Uint8Array(wanted);
  let at = 0;
  const checkRoom = (length: number): void => {
    if (at + length > wanted) throw damaged();
  };
  reader.readBody(tensor.field, (field) => {
    const typed = TYPED_FIELDS.get(field.number);
    if (typed === 'integers') {
      const numbers: number[] = [];
      reader.readInts(field, numbers, wanted);
      const piece = narrow(numbers, tensor.elemType);
      checkRoom(piece.byteLength);
      bytes.set(piece, at);
      at += piece.byteLength;
    } else if (field.number === TENSOR.rawData || typed !== undefined) {
      checkRoom(field.end - field.bodyStart);
      at += reader.copyBytes(field, bytes.subarray(at));
    }
  });
  if (at !== wanted) throw damaged();
  return bytes;
}

/** Integers of a typed field as the bytes of their element type. float16 and bfloat16 are stored as their bits. */
function narrow(numbers: readonly number[], elemType: number): Uint8Array {
  const size = ELEMENT_BITS.get(elemType)! / 8;
  if (size === 8) return new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer);
  if (size === 4) return new Uint8Array(Int32Array.from(numbers).buffer);
  return size === 2 ? new Uint8Array(Uint16Array.from(numbers).buffer) : Uint8Array.from(numbers);
}

function readExternal(tensor: ScannedTensor, files: ExternalFiles): Uint8Array<ArrayBuffer> {
  const location = tensor.external!.get('location') ?? '';
  const range = payloadRange({ name: tensor.name, location, tensor, owner: tensor.field }, files);
  const bytes = new Uint8Array(range.end - range.start);
  const file = openFileSource(range.path);
  try {
    file.read(range.start, bytes.byteLength, bytes);
  } finally {
    file.close();
  }
  return bytes;
}

/** The range of a tensor's payload. Throws `EXTERNAL_DATA_UNSAFE` if it does not fit the sizes of the tensor and of the file. */
export function payloadRange(item: ExternalTensor, { pathOf }: ExternalFiles): FileRange {
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
