/** An inference request of the Open Inference Protocol: JSON, with tensors in the JSON or in bytes after it. */
import type { Extractor } from '../../extract/extractor.js';
import { dimsText, type TensorInfo } from '../../tensor/tensor-info.js';
import { makeTensor, mismatch, type DType, type Tensor, type TensorData } from '../../tensor/tensor.js';
import { DTYPES, countOf, readBinaryData, readBinaryElements } from './datatypes.js';
import { HttpError } from '../http/http-error.js';
import { readBase64 } from '../http/read-base64.js';
import { readJsonData } from './read-list.js';

export interface InferBody {
  readonly json: InferJson;
  /** The lists of elements in the JSON; see {@link ScannedJson}. */
  readonly lists: readonly Uint8Array[];
  /** The bytes after the JSON: those of each input with `binary_data_size`, in order. */
  readonly binary: Uint8Array;
}

type Parameters = Readonly<Record<string, unknown>>;

/** The JSON part, as its schema describes it. */
export interface InferJson {
  readonly id?: string;
  readonly parameters?: { readonly binary_data_output?: boolean };
  readonly inputs: readonly InferInput[];
  readonly outputs?: readonly {
    readonly name: string;
    readonly parameters?: Parameters & { readonly binary_data?: boolean };
  }[];
}

interface InferInput {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly parameters?: Parameters & { readonly binary_data_size?: number };
  /** The place in {@link InferBody.lists}. */
  readonly data?: readonly [number];
}

/** Name of an input of datatype BYTES that takes encoded images, one per element, instead of the model's own inputs. */
export const IMAGE_INPUT = 'image';

export interface WantedOutput {
  readonly name: string;
  readonly isBinary: boolean;
}

export type InferFeeds =
  | { readonly images: readonly Uint8Array[]; readonly tensors?: undefined }
  | { readonly tensors: Readonly<Record<string, Tensor>>; readonly images?: undefined };

/** Parameters of Triton's extensions that would change the reply. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  classification: 'class labels (class_count) are not supported; ask for the output itself',
  class_count: 'class labels (class_count) are not supported; ask for the output itself',
  shared_memory_region: 'shared memory is not supported; send and receive tensors in the body',
};

function invalid(message: string): HttpError {
  return new HttpError('REQUEST_INVALID', message);
}

function checkParameters(what: string, parameters: Parameters | undefined): void {
  const refused = Object.keys(parameters ?? {}).find((name) => Object.hasOwn(UNSUPPORTED, name));
  if (refused !== undefined) throw invalid(`${what} has the parameter "${refused}": ${UNSUPPORTED[refused]}`);
}

/** Reads the inputs: encoded images, or tensors for the model's own inputs. Throws `REQUEST_INVALID`, `INPUT_MISMATCH`. */
export async function readInputs(
  { json: { inputs }, lists, binary }: InferBody,
  modelInputs: readonly TensorInfo[],
): Promise<InferFeeds> {
  const tensors = new Map<string, Tensor>();
  let images: Uint8Array[] | undefined;
  let at = 0;
  for (const input of inputs) {
    const { name, parameters, data } = input;
    checkParameters(`input "${name}"`, parameters);
    const size = parameters?.binary_data_size;
    if (size !== undefined && at + size > binary.length)
      throw invalid(
        `input "${name}" must have its ${size} bytes after the JSON; ${binary.length - at} are left`,
      );
    const bytes = size === undefined ? undefined : binary.subarray(at, at + size);
    at += size ?? 0;
    if (tensors.has(name)) throw invalid(`input "${name}" must be given once`);
    if (bytes && data !== undefined)
      throw invalid(`input "${name}" must have its elements in "data" or after the JSON, not both`);
    const elements = bytes ?? listOf(input, lists);
    if (isImages(input, modelInputs)) images = await readImages(input, elements);
    else tensors.set(name, await readTensor(input, elements, modelInputs));
  }
  if (at !== binary.length)
    throw invalid(`${binary.length - at} bytes after the JSON belong to no input (binary_data_size)`);
  if (images === undefined) return { tensors: Object.fromEntries(tensors) };
  if (inputs.length > 1) throw invalid(`"${IMAGE_INPUT}" must be the only input`);
  return { images };
}

/** The elements of an input: bytes after the JSON, or a list in it. */
type Elements = Uint8Array | { readonly list: Uint8Array };

function listOf({ name, data }: InferInput, lists: readonly Uint8Array[]): Elements {
  const list = data && lists[data[0]];
  if (!list) throw invalid(`input "${name}" must hold its elements as a list, "data"`);
  return { list };
}

function readElements(
  { name, shape }: InferInput,
  dtype: DType,
  elements: Elements,
): TensorData | Promise<TensorData> {
  return elements instanceof Uint8Array
    ? readBinaryData(name, dtype, shape, elements)
    : readJsonData(name, dtype, shape, elements.list);
}

/** The input is for images unless the model itself has a text input of that name. */
function isImages({ name, datatype }: InferInput, modelInputs: readonly TensorInfo[]): boolean {
  const own = modelInputs.find((input) => input.name === name);
  return name === IMAGE_INPUT && datatype === 'BYTES' && own?.dtype !== 'string';
}

async function readImages(input: InferInput, elements: Elements): Promise<Uint8Array[]> {
  const { name, shape } = input;
  const [count = 0, ...rest] = shape;
  if (shape.length === 0 || count === 0 || rest.some((size) => size !== 1))
    throw invalid(`input "${name}" must have shape [N] or [N, 1], one image per element`);
  if (elements instanceof Uint8Array) return readBinaryElements(name, count, elements);
  const texts = (await readElements(input, 'string', elements)) as string[];
  return texts.map((text) => readBase64(`input "${name}"`, text));
}

async function readTensor(
  input: InferInput,
  elements: Elements,
  modelInputs: readonly TensorInfo[],
): Promise<Tensor> {
  const { name, shape, datatype } = input;
  const own = modelInputs.find((other) => other.name === name);
  if (!own) {
    const names = modelInputs.map((other) => `"${other.name}"`).join(', ');
    throw invalid(
      `there is no input "${name}"; the model has ${names}, and "${IMAGE_INPUT}" of datatype BYTES takes images`,
    );
  }
  const dtype: DType = DTYPES.get(datatype)!;
  checkShape(own, dtype, shape);
  return makeTensor(dtype, [...shape], await readElements(input, dtype, elements));
}

/** Checks a tensor before the engine does, because its errors could be anybody's fault. The run itself checks the batch. */
function checkShape(own: TensorInfo, dtype: DType, shape: readonly number[]): void {
  countOf(own.name, shape);
  if (own.dtype !== null && own.dtype !== dtype) throw mismatch(own.name, own.dtype, dtype);
  const isFit =
    own.dims === null ||
    (own.dims.length === shape.length &&
      own.dims.every((size, axis) => axis === 0 || typeof size !== 'number' || size === shape[axis]));
  if (!isFit) throw mismatch(own.name, `of dims ${dimsText(own)}`, `[${shape.join(', ')}]`);
}

/** Which outputs to send, and in which form. Throws `REQUEST_INVALID`. */
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
    if (seen.has(name)) throw invalid(`output "${name}" must be requested once`);
    seen.add(name);
    checkParameters(`output "${name}"`, output.parameters);
    return { name, isBinary: output.parameters?.binary_data ?? isBinary };
  });
}
