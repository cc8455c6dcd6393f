/** An inference request of the Open Inference Protocol: JSON, with tensors in it or in bytes behind it. */
import type { Extractor } from '../../extract/extractor.js';
import { dimsText, type TensorInfo } from '../../tensor/tensor-info.js';
import { makeTensor, mismatch, type DType, type Tensor } from '../../tensor/tensor.js';
import { DTYPES, countOf, readBinaryData, readBinaryElements, readJsonData } from './datatypes.js';
import { HttpError } from './http-error.js';

/** The JSON part, as its schema says. */
export interface InferJson {
  readonly id?: string;
  readonly parameters?: { readonly binary_data_output?: boolean };
  readonly inputs: readonly InferInput[];
  readonly outputs?: readonly {
    readonly name: string;
    readonly parameters?: { readonly binary_data?: boolean };
  }[];
}

interface InferInput {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly parameters?: { readonly binary_data_size?: number };
  readonly data?: unknown;
}

/** Name of the input of datatype BYTES that takes encoded images, one an element, instead of the model's own inputs. */
export const IMAGE_INPUT = 'image';

/** An output to send. */
export interface WantedOutput {
  readonly name: string;
  readonly isBinary: boolean;
}

/** What is to be run. */
export type InferFeeds =
  | { readonly images: readonly Uint8Array[]; readonly tensors?: undefined }
  | { readonly tensors: Readonly<Record<string, Tensor>>; readonly images?: undefined };

function invalid(message: string, cause?: unknown): HttpError {
  return new HttpError('REQUEST_INVALID', message, cause === undefined ? {} : { cause });
}

/**
 * Cuts a body into its JSON and the bytes behind it.
 *
 * @param headerLength - What the header `Inference-Header-Content-Length` says, if it is there.
 * @throws {@link HttpError} `REQUEST_INVALID`.
 */
export function splitBody(
  body: Uint8Array,
  headerLength: string | undefined,
): { readonly json: unknown; readonly binary: Uint8Array } {
  if (headerLength !== undefined && !(/^\d{1,10}$/.test(headerLength) && Number(headerLength) <= body.length))
    throw invalid(`Inference-Header-Content-Length must be a number of bytes up to ${body.length}`);
  const end = headerLength === undefined ? body.length : Number(headerLength);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body.subarray(0, end));
    return { json: JSON.parse(text), binary: body.subarray(end) };
  } catch (error) {
    throw invalid('the request is no JSON; bytes behind it need Inference-Header-Content-Length', error);
  }
}

/**
 * Reads the inputs: encoded images, or tensors for the model's own inputs.
 *
 * @param binary - The bytes behind the JSON: those of each input with `binary_data_size`, in order.
 * @throws {@link HttpError} `REQUEST_INVALID`; {@link TapirError} `INPUT_MISMATCH`.
 */
export function readInputs(
  { inputs }: InferJson,
  binary: Uint8Array,
  modelInputs: readonly TensorInfo[],
): InferFeeds {
  const tensors = new Map<string, Tensor>();
  let images: Uint8Array[] | undefined;
  let at = 0;
  for (const input of inputs) {
    const { name, parameters } = input;
    const size = parameters?.binary_data_size;
    if (size !== undefined && at + size > binary.length)
      throw invalid(
        `input "${name}" must have its ${size} bytes behind the JSON; ${binary.length - at} are left`,
      );
    const bytes = size === undefined ? undefined : binary.subarray(at, at + size);
    at += size ?? 0;
    if (tensors.has(name)) throw invalid(`input "${name}" must be given once`);
    if (isImages(input, modelInputs)) images = readImages(input, bytes);
    else tensors.set(name, readTensor(input, bytes, modelInputs));
  }
  if (at !== binary.length)
    throw invalid(`${binary.length - at} bytes behind the JSON belong to no input (binary_data_size)`);
  if (images === undefined) return { tensors: Object.fromEntries(tensors) };
  if (inputs.length > 1) throw invalid(`"${IMAGE_INPUT}" must be the only input`);
  return { images };
}

/** A model may have an input of that name; images it is not, unless it takes text. */
function isImages({ name, datatype }: InferInput, modelInputs: readonly TensorInfo[]): boolean {
  const own = modelInputs.find((input) => input.name === name);
  return name === IMAGE_INPUT && datatype === 'BYTES' && own?.dtype !== 'string';
}

function readImages(input: InferInput, bytes: Uint8Array | undefined): Uint8Array[] {
  const { name, shape, data } = input;
  const [count = 0, ...rest] = shape;
  if (shape.length === 0 || count === 0 || rest.some((size) => size !== 1))
    throw invalid(`input "${name}" must have shape [N] or [N, 1], an image an element`);
  if (bytes) return readBinaryElements(name, count, bytes);
  const texts = readJsonData(name, 'string', shape, data) as string[];
  return texts.map((text) => {
    const image = Buffer.from(text, 'base64');
    // Letters that do not belong there are passed over, and fall short of the length.
    const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
    if (image.length !== (text.length / 4) * 3 - padding)
      throw invalid(`input "${name}" must hold images in base64, or in bytes behind the JSON`);
    return image;
  });
}

function readTensor(
  input: InferInput,
  bytes: Uint8Array | undefined,
  modelInputs: readonly TensorInfo[],
): Tensor {
  const { name, shape, datatype, data } = input;
  const own = modelInputs.find((other) => other.name === name);
  if (!own) {
    const names = modelInputs.map((other) => `"${other.name}"`).join(', ');
    throw invalid(
      `there is no input "${name}"; the model has ${names}, and "${IMAGE_INPUT}" of datatype BYTES takes images`,
    );
  }
  const dtype: DType = DTYPES.get(datatype)!;
  if (bytes && data !== undefined) throw invalid(`input "${name}" must have its elements in one place`);
  checkShape(own, dtype, shape);
  const elements = bytes ? readBinaryData(name, dtype, shape, bytes) : readJsonData(name, dtype, shape, data);
  return makeTensor(dtype, [...shape], elements);
}

/** Checked before onnxruntime does, whose errors could be anybody's fault. The batch is checked where it is run. */
function checkShape(own: TensorInfo, dtype: DType, shape: readonly number[]): void {
  countOf(own.name, shape);
  if (own.dtype !== null && own.dtype !== dtype) throw mismatch(own.name, own.dtype, dtype);
  const isFit =
    own.dims === null ||
    (own.dims.length === shape.length &&
      own.dims.every((size, axis) => axis === 0 || typeof size !== 'number' || size === shape[axis]));
  if (!isFit) throw mismatch(own.name, `of dims ${dimsText(own)}`, `[${shape.join(', ')}]`);
}

/** Which outputs are sent, and how. Throws `REQUEST_INVALID`. */
export function readWanted(
  { outputs, parameters }: InferJson,
  { outputs: known }: Pick<Extractor, 'outputs'>,
): WantedOutput[] {
  const isBinary = parameters?.binary_data_output ?? false;
  if (outputs === undefined || outputs.length === 0) return known.map(({ name }) => ({ name, isBinary }));
  const seen = new Set<string>();
  return outputs.map((output) => {
    const { name } = output;
    if (!known.some((other) => other.name === name)) {
      const names = known.map((other) => `"${other.name}"`).join(', ');
      throw invalid(`there is no output "${name}"; the model has ${names}`);
    }
    if (seen.has(name)) throw invalid(`output "${name}" must be asked for once`);
    seen.add(name);
    return { name, isBinary: output.parameters?.binary_data ?? isBinary };
  });
}
