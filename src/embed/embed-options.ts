/** The options of embedding, checked against the model. */
import { checkBoolean, checkInteger, checkSignal, invalidOption } from '../base/checks.js';
import { extractorInternals, isOnCpu, type Extractor } from '../extract/extractor.js';
import type { TransformPreset } from '../image/transform-options.js';
import { createTransform, Transform } from '../image/transform.js';
import { checkSourceOptions, SOURCE_DEFAULTS, type SourceOptions } from '../sources/items/source-options.js';

/** Options of {@link embedImages}. */
export interface EmbedOptions extends SourceOptions {
  /**
   * Preprocessing: the name of a preset, or a transform from {@link createTransform}. Its output size must fit the model.
   * @default 'ImageNet1K_V1'
   */
  readonly transform: Transform | TransformPreset;
  /**
   * Images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly batch: number;
  /**
   * Whether to keep trailing 1×1 spatial dims: `[2048, 1, 1]` instead of `[2048]`.
   * @default false
   */
  readonly keepDims: boolean;
  /**
   * Threads that decode images, an integer from 0 to 1024; 0 uses the cores that the devices leave free. More threads than
   * UV_THREADPOOL_SIZE (4 by default, read when Node.js starts) do not help. The `tapir` command sets this variable.
   * @default 0
   */
  readonly decodeThreads: number;
  /**
   * Whether to hash the content of each file, which finds changes that size and time do not show.
   * @default false
   */
  readonly checksum: boolean;
  /**
   * Stops the work when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
}

export const EMBED_DEFAULTS: EmbedOptions = {
  transform: 'ImageNet1K_V1',
  batch: 0,
  keepDims: false,
  decodeThreads: 0,
  checksum: false,
  signal: undefined,
  ...SOURCE_DEFAULTS,
};

/** Checked options, and what follows from them and the model. */
export interface EmbedSetup {
  readonly transform: Transform;
  readonly batch: number;
  readonly keepDims: boolean;
  readonly decodeThreads: number;
  readonly checksum: boolean;
  readonly signal: AbortSignal | undefined;
  /** How to read the source. */
  readonly source: SourceOptions;
  /** The number of rows that the graph was exported for: runs are padded to a multiple of it. Null if it takes any number. */
  readonly multiple: number | null;
  /** Whether the graph takes 8-bit pixels `[N, H, W, 3]` and normalises them. */
  readonly takesPixels: boolean;
  readonly height: number;
  readonly width: number;
}

export const CHANNELS = 3;

/** Checks the extractor, and the options against it. Throws `OPTION_INVALID`. */
export function setUpEmbedding(extractor: Extractor, options: EmbedOptions): EmbedSetup {
  // First: a forgotten await, or an extractor of another copy of this package.
  extractorInternals.of(extractor);
  const transform =
    options.transform instanceof Transform ? options.transform : createTransform(options.transform);
  return {
    transform,
    batch: checkInteger('batch', options.batch, 0, 4096) || (isOnCpu(extractor) ? 8 : 32),
    keepDims: checkBoolean('keepDims', options.keepDims),
    checksum: checkBoolean('checksum', options.checksum),
    decodeThreads: checkInteger('decodeThreads', options.decodeThreads, 0, 1024),
    signal: checkSignal(options.signal),
    source: checkSourceOptions(options),
    ...fitTransform(extractor, transform),
  };
}

/** Checks that the images of a transform fit the model's input. */
function fitTransform(
  extractor: Extractor,
  transform: Transform,
): Pick<EmbedSetup, 'multiple' | 'takesPixels' | 'height' | 'width'> {
  const [input, ...others] = extractor.inputs;
  const size = transform.outputSize;
  if (size === null)
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  const { height, width } = size;
  const dims = input?.dims;
  const dtype = input?.dtype ?? 'float32';
  if (!input || others.length > 0 || dims?.length !== 4 || (dtype !== 'float32' && dtype !== 'uint8')) {
    const inputs = extractor.inputs.map(
      (other) => `${other.name} ${other.dtype} [${other.dims?.join(', ') ?? '?'}]`,
    );
    throw invalidOption(
      'model',
      'one with a single image input, [N, 3, H, W] float32 or [N, H, W, 3] uint8',
      inputs.join('; '),
    );
  }
  const takesPixels = dtype === 'uint8';
  const made = takesPixels ? [height, width, CHANNELS] : [CHANNELS, height, width];
  const [rows, ...wanted] = dims;
  if (made.some((length, axis) => typeof wanted[axis] === 'number' && wanted[axis] !== length)) {
    const expected = `one that fits the model's input "${input.name}" [${dims.join(', ')}] (on the command line: --transform)`;
    throw invalidOption('transform', expected, `images of [${made.join(', ')}]`);
  }
  if (takesPixels) checkNormalization(extractor, transform);
  return { multiple: typeof rows === 'number' ? rows : null, takesPixels, height, width };
}

/** Checks that the graph normalises as the transform says, because the manifest records the transform. */
function checkNormalization({ imageNormalization: inGraph }: Extractor, transform: Transform): void {
  if (!inGraph) return; // The model was exported with its own normalisation.
  const { mean, std } = transform.options;
  const isSame =
    mean.every((value, i) => value === inGraph.mean[i]) && std.every((value, i) => value === inGraph.std[i]);
  if (isSame) return;
  const text = (values: readonly number[]): string => `[${values.join(', ')}]`;
  throw invalidOption(
    'transform',
    `one whose mean and std the graph applies: ${text(inGraph.mean)}, ${text(inGraph.std)} (create the extractor with input: { type: 'image-uint8', mean, std })`,
    `${text(mean)}, ${text(std)}`,
  );
}
