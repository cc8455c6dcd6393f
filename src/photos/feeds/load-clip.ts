/** Frames of a video → the clip that a model is fed. */
import { invalidOption, type Options } from '../../base/checks.js';
import { integer, optional, readOptions, type Fields } from '../../base/options.js';
import { misfitImage } from '../images/file/image-errors.js';
import type { ImageSource } from '../images/formats/image-source.js';
import { checkOneRow } from '../images/transform/check-transform.js';
import type { LoadedImage } from '../images/transform/load-pixels.js';
import { createTransform, type TransformLike } from './create-transform.js';
import { loadImage } from './load-image.js';

/** Options of {@link loadClip}. */
export interface ClipOptions {
  /**
   * The number of frames of the clip.
   * @default undefined, which is all that there are
   */
  readonly frames: number | undefined;
  /**
   * Takes every so many frames.
   * @default 1
   */
  readonly stride: number;
  /**
   * The first frame, counted from 0.
   * @default 0
   */
  readonly start: number;
}

export const CLIP_FIELDS: Fields<ClipOptions> = {
  frames: optional(integer(1, 4096, 16, 'frames of a clip')),
  stride: integer(1, 65_536, 1, 'takes every so many frames'),
  start: integer(0, 2 ** 31 - 1, 0, 'the first frame'),
};

/** A clip that a model can be fed. */
export interface LoadedClip {
  /** The frames of the clip, in order; their pixels as {@link loadImage} gives them. */
  readonly images: readonly LoadedImage[];
  /** Height of every frame after the transform, in pixels. */
  readonly height: number;
  /** Width of every frame after the transform, in pixels. */
  readonly width: number;
  /** The normalised tensor, `[1, channels, frames, height, width]` float32. */
  toTensor(): { dtype: 'float32'; dims: [number, number, number, number, number]; data: Float32Array };
}

/**
 * Reads frames of a video and transforms each of them, for networks that take `[N, C, T, H, W]`.
 *
 * @remarks Frames are read one after the other in the calling thread. A program such as ffmpeg makes files of the frames of a video.
 *
 * @param frames - The frames of a video in order; each as {@link loadImage} takes it.
 * @param transform - As {@link createTransform} takes it.
 * @param given - See {@link ClipOptions}.
 * @returns The clip; `toTensor()` normalises it.
 * @throws {@link TapirError} `IMAGE_MISFIT` if there are fewer frames than asked for, or frames have unlike sizes; `OPTION_INVALID`; those of
 * {@link loadImage}.
 *
 * @example
 * ```ts
 * import { loadClip } from 'onnx-tapir';
 *
 * const frames = ['000.png', '001.png', '002.png', '003.png'];
 * const clip = await loadClip(frames, 'torchvision:R3D_18_Weights.DEFAULT', { frames: 2, stride: 2 });
 * console.log(clip.toTensor().dims); // [1, 3, 2, 112, 112]
 * ```
 */
export async function loadClip(
  frames: readonly ImageSource[],
  transform: TransformLike,
  given: Options<ClipOptions> = {},
): Promise<LoadedClip> {
  const { stride, start, ...options } = readOptions(CLIP_FIELDS, given, 'loadClip');
  if (!Array.isArray(frames)) throw invalidOption('frames', 'a list of images', frames);
  const there = frames.filter((_, at) => at >= start && (at - start) % stride === 0);
  const count = options.frames ?? Math.max(1, there.length);
  const chosen = createTransform(transform);
  checkOneRow(chosen.options, 'with clips');
  if (there.length < count) {
    const reason = `it has ${frames.length} frames, and ${start + (count - 1) * stride + 1} are needed`;
    throw misfitImage(reason, 'the clip', 'ask for fewer frames, or a smaller stride or start');
  }
  const images: LoadedImage[] = [];
  for (const frame of there.slice(0, count)) {
    // oxlint-disable-next-line no-await-in-loop -- one frame after the other: a clip may have many
    const image = await loadImage(frame, chosen);
    checkSize(images[0] ?? image, image, images.length);
    images.push(image);
  }
  const [{ height, width }] = images as [LoadedImage];
  const { channels } = chosen;
  return {
    images,
    height,
    width,
    toTensor() {
      const pixels = height * width;
      const data = new Float32Array(channels * count * pixels);
      const planar = images.map((image) => planesOf(image, chosen.options.layout === 'nhwc', channels));
      for (const [at, planes] of planar.entries())
        for (let channel = 0; channel < channels; channel++)
          data.set(
            planes.subarray(channel * pixels, (channel + 1) * pixels),
            (channel * count + at) * pixels,
          );
      return { dtype: 'float32', dims: [1, channels, count, height, width], data };
    },
  };
}

/** The normalised channels of a frame, one after the other. */
function planesOf(image: LoadedImage, isLast: boolean, channels: number): Float32Array {
  const { data } = image.toTensor();
  if (!isLast) return data;
  const pixels = data.length / channels;
  return data.map((_, at) => data[(at % pixels) * channels + Math.floor(at / pixels)]!);
}

function checkSize(first: LoadedImage, image: LoadedImage, at: number): void {
  const { sourceHeight: height, sourceWidth: width } = image;
  if (height === first.sourceHeight && width === first.sourceWidth) return;
  const reason = `frame ${at} of the clip has ${width}×${height} pixels, and the first has ${first.sourceWidth}×${first.sourceHeight}`;
  throw misfitImage(reason, 'the clip', 'frames of a clip have one size');
}
