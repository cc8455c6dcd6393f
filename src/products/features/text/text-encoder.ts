/** Text tower + tokenizer → texts in, vectors out. */
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { modelPathOf, type OnnxModel } from '../../../run/model/open/open-model.js';
import { checkText, checkTexts, invalidOption, type Options } from '../../../base/checks.js';
import { optional, readOptions, signal, type Fields } from '../../../base/options.js';
import { dimsText, type TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { TapirError } from '../../../base/errors.js';
import type { FeatureExtractor } from '../../../extract/feature-extractor.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { createTextBatcher, type TextBatch } from './batch-tokens.js';
import { openTextTower, readTokenizerFiles } from './text-tower.js';
import { tensorsOf, tokenInputsOf, type TokenInputs } from './tokenizer/token-inputs.js';

/** Options of {@link createTextEncoder}. */
export interface TextEncoderOptions {
  /**
   * Output of the text tower to return. Left out, it is `text_embeds`, `text_embeddings`, `text_features`, `text_embedding`,
   * `embedding` or `pooler_output`, the first that there is; else the only output `[N, D]`.
   * @default undefined
   */
  readonly output: string | undefined;
  /**
   * Folder of tokenizer.json and the files beside it. Left out, it is that of the text tower, or the folder above it.
   * @default undefined
   */
  readonly tokenizer: string | undefined;
  /**
   * Where to run, as for {@link createFeatureExtractor}.
   * @default 'cpu'
   */
  readonly device: Device;
}

export const TEXT_ENCODER_FIELDS: Fields<TextEncoderOptions> = {
  output: optional(checkText),
  tokenizer: optional(checkText),
  device: DEVICE,
};

/** Options of {@link TextTower.encode}. */
export interface EncodeTextOptions {
  /**
   * Rejects the call when it fires.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

const ENCODE_FIELDS: Fields<EncodeTextOptions> = { signal };

/** The text half of a pair of image and text models, with its tokenizer. Made by {@link createTextEncoder}. */
export interface TextTower {
  /** The text tower. */
  readonly model: OnnxModel;
  /** The output that holds the vectors. */
  readonly output: string;
  /** Number of elements of a vector; null if the file does not state it. */
  readonly elements: number | null;
  /** Longest text in tokens, with those around it; the rest of a longer text is cut off. Infinity if nothing limits it. */
  readonly maxTokens: number;
  /** The token ids of a text, as Python's tokenizer makes them for this model. */
  tokenize(text: string): number[];
  /**
   * Computes the vector of each text, in order, as the model gives it: not normalised.
   *
   * @throws {@link TapirError} `OPTION_INVALID` for anything but a list of strings; `RUN_FAILED`; `LANE_DIED`; `CLOSED`.
   */
  encode(texts: readonly string[], given?: Options<EncodeTextOptions>): Promise<Float32Array[]>;
  /** Ends the session. Idempotent. */
  close(): Promise<void>;
  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Names of outputs that lie in one space with an image tower's, the surest first. */
const OUTPUTS = [
  'text_embeds',
  'text_embeddings',
  'text_features',
  'text_embedding',
  'embedding',
  'pooler_output',
];

const ROWS_PER_BATCH = 32;

/**
 * Opens the text tower of a pair of image and text models (CLIP, SigLIP, OpenCLIP) with its tokenizer.
 *
 * Token ids are those of Python's `tokenizers`: lengths, padding, lower-casing and end tokens are what the model's configuration
 * says, and a configuration that cannot be followed is an error.
 *
 * @remarks It needs the optional package `@huggingface/tokenizers`.
 *
 * @param model - Path of the text tower, or of an image model with its text tower and tokenizer beside it. These are Hugging Face's
 * `onnx/vision_model.onnx` and `onnx/text_model.onnx`, Immich's `visual/` and `textual/`, or one file that holds both towers.
 * @param given - See {@link TextEncoderOptions}.
 * @throws {@link TapirError} `OPTION_INVALID` if there is no text tower; `NAME_NOT_FOUND` for an unknown output;
 * `TOKENIZER_INVALID`; `DEPENDENCY_MISSING`; those of {@link createFeatureExtractor}.
 *
 * @example
 * ```ts
 * import { createTextEncoder } from 'onnx-tapir/features';
 *
 * const tower = await createTextEncoder('clip/onnx/vision_model.onnx');
 * const [dog, cat] = await tower.encode(['a dog on grass', 'two cats']);
 * console.log(dog?.length, cat?.length); // 512 512
 * await tower.close();
 * ```
 */
export async function createTextEncoder(
  model: string,
  given: Options<TextEncoderOptions> = {},
): Promise<TextTower> {
  const options = readOptions(TEXT_ENCODER_FIELDS, given, 'createTextEncoder');
  const tower = await openTextTower(checkText('model', model));
  const output = options.output ?? chooseOutput(tower);
  const files = readTokenizerFiles(options.tokenizer ?? modelPathOf(tower)!);
  // Cutting to the text output drops the pixels of a model that holds both towers.
  const extractor = await createFeatureExtractor(tower, [output], { device: options.device });
  try {
    const inputs = readInputs(extractor, output);
    const [rows, length] = inputs.ids.dims!.map((size) => (typeof size === 'number' ? size : undefined));
    const hasMask = inputs.all.some(({ role }) => role === 'mask');
    const batcher = createTextBatcher(files, { length, hasMask });
    const elements = extractor.outputs[0]!.dims?.[1];
    return {
      model: tower,
      output,
      elements: typeof elements === 'number' ? elements : null,
      maxTokens: batcher.settings.maxTokens,
      tokenize: (text) => batcher.encode(text),
      async encode(texts, given = {}) {
        const { signal } = readOptions(ENCODE_FIELDS, given, 'encode');
        checkTexts('texts', texts);
        const vectors: Float32Array[] = [];
        for (const batch of batcher.batches(texts, rows ?? ROWS_PER_BATCH)) {
          const { [output]: found } = await extractor.run(tensorsOf(inputs, filled(batch, rows)), { signal });
          const computed = splitRows(output, found!, batch.positions.length);
          batch.positions.forEach((position, i) => (vectors[position] = computed[i]!));
        }
        return vectors;
      },
      close: () => extractor.close(),
      [Symbol.asyncDispose]: () => extractor.close(),
    };
  } catch (error) {
    await extractor.close();
    throw error;
  }
}

/** Chooses the output in the space of the images. */
function chooseOutput({ outputs, label }: OnnxModel): string {
  const known = OUTPUTS.find((name) => outputs.some((output) => output.name === name));
  if (known !== undefined) return known;
  const vectors = outputs.filter(({ dtype, dims }) => dtype?.startsWith('float') && dims?.length === 2);
  if (vectors.length === 1) return vectors[0]!.name;
  const expected = `an output of "${label}" with one vector per text: ${listTensors(outputs)}`;
  throw invalidOption('output', expected, undefined);
}

function listTensors(tensors: readonly TensorInfo[]): string {
  return tensors.map((tensor) => `${tensor.name} ${dimsText(tensor)}`).join(', ');
}

function readInputs({ inputs }: FeatureExtractor, output: string): TokenInputs {
  const found = tokenInputsOf(inputs);
  const other = found?.others[0] ?? (found ? undefined : inputs[0]);
  if (found && !other) return found;
  const needs = listTensors(inputs);
  throw invalidOption('output', `one that depends on token ids alone (this one needs ${needs})`, output);
}

/** A graph with a fixed batch computes the last text again in the rows that are left. */
function filled(batch: TextBatch, rows: number | undefined): TextBatch {
  const missing = (rows ?? 0) - batch.ids.length;
  if (missing <= 0) return batch;
  const repeat = <Row>(list: readonly Row[]): Row[] => [
    ...list,
    ...Array.from({ length: missing }, () => list.at(-1)!),
  ];
  return { ...batch, ids: repeat(batch.ids), masks: repeat(batch.masks) };
}

function splitRows(output: string, { dims, data }: Tensor, rows: number): Float32Array[] {
  if (dims.length !== 2) {
    const actual = `[${dims.join(', ')}]`;
    const reason = 'one vector per text, [N, D], is needed';
    throw new TapirError('OUTPUT_MISFIT', `output "${output}" of the text tower is ${actual}: ${reason}`, {
      details: { output, actual, reason },
    });
  }
  const elements = dims[1]!;
  const own = (i: number): Float32Array => (data as Float32Array).slice(i * elements, (i + 1) * elements);
  return Array.from({ length: rows }, (_, i) => own(i));
}
