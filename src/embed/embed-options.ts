/** What embedding takes besides model and source, checked against the model. */
import { checkBoolean, checkInteger, checkSignal, invalidOption } from '../base/checks.js';
import { isOnCpu, type Extractor } from '../extract/extractor.js';
import type { TransformPreset } from '../image/transform-options.js';
import { createTransform, Transform } from '../image/transform.js';
import { checkSourceOptions, SOURCE_DEFAULTS, type SourceOptions } from '../sources/items/source-options.js';

/** Options of {@link embedImages}. */
export interface EmbedOptions extends SourceOptions {
  /**
   * Preprocessing: a preset's name, or from {@link createTransform}. Its size must be the model's.
   * @default 'ImageNet1K_V1'
   */
  readonly transform: Transform | TransformPreset;
  /**
   * Images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly batch: number;
  /**
   * Keep trailing 1×1 spatial dims: `[2048, 1, 1]` instead of `[2048]`.
   * @default false
   */
  readonly keepDims: boolean;
  /**
   * Threads that decode images, an integer from 0 to 1024; 0 takes the cores that the devices leave free. More than
   * UV_THREADPOOL_SIZE (4, unless the environment says otherwise when Node.js starts) are of no use: the `tapir` command sets it.
   * @default 0
   */
  readonly decodeThreads: number;
  /**
   * Hash each file's content, to find changes that size and time do not show.
   * @default false
   */
  readonly checksum: boolean;
  /**
   * Stops the work when it fires; the call rejects with its reason.
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
  /** How the source is read. */
  readonly source: SourceOptions;
  /** The number of rows that the graph was exported for: runs are padded to a multiple of it. Null if it takes any number. */
  readonly multiple: number | null;
  /** Whether the graph takes pixels `[N, H, W, 3]` and normalises them itself. */
  readonly takesPixels: boolean;
  readonly height: number;
  readonly width: number;
}

export const CHANNELS = 3;

/** Checks options against the extractor. Throws `OPTION_INVALID`. */
export function setUpEmbedding(extractor: Extractor, options: EmbedOptions): EmbedSetup {
  const transform =
    options.transform instanceof Transform ? options.transform : createTransform(options.transform);
  const batch = checkInteger('batch', options.batch, 0, 4096) || (isOnCpu(extractor) ? 8 : 32);
  const { keepDims, decodeThreads, checksum } = options;
  checkBoolean('keepDims', keepDims);
  checkBoolean('checksum', checksum);
  checkInteger('decodeThreads', decodeThreads, 0, 1024);
  const signal = checkSignal(options.signal);
  const source = checkSourceOptions(options);
  const [input, ...others] = extractor.inputs;
  const size = transform.outputSize;
  if (size === null)
    throw invalidOption('transform', 'one whose results all have the same size (set crop)', 'no fixed size');
  const dims = input?.dims;
  const dtype = input?.dtype ?? 'float32';
  if (!input || others.length > 0 || dims?.length !== 4 || (dtype !== 'float32' && dtype !== 'uint8')) {
    const what = extractor.inputs.map(
      (other) => `${other.name} ${other.dtype} [${other.dims?.join(', ') ?? '?'}]`,
    );
    throw invalidOption(
      'model',
      'one with a single image input, [N, 3, H, W] float32 or [N, H, W, 3] uint8',
      what.join('; '),
    );
  }
  const takesPixels = dtype === 'uint8';
  const wanted = takesPixels ? [size.height, size.width, CHANNELS] : [CHANNELS, size.height, size.width];
  const differs = wanted.some(
    (length, axis) => typeof dims[axis + 1] === 'number' && dims[axis + 1] !== length,
  );
  if (differs) {
    const expected = `one that fits the model's input "${input.name}" [${dims.join(', ')}] (on the command line: --transform)`;
    throw invalidOption('transform', expected, `images of [${wanted.join(', ')}]`);
  }
  if (takesPixels) checkNormalization(extractor, transform);
  const multiple = typeof dims[0] === 'number' ? dims[0] : null;
  const rest = { checksum, signal, source, multiple, takesPixels };
  return { transform, batch, keepDims, decodeThreads, ...rest, ...size };
}

/** What the graph computes must be what the transform says: the manifest records the transform. */
function checkNormalization({ imageNormalization: inGraph }: Extractor, transform: Transform): void {
  if (!inGraph) return; // The model's own affair.
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
