/** The options of clips that are cut out of videos. */
import type { Options } from '../../../base/checks.js';
import { integer, optional, readOptions, type Fields } from '../../../base/options.js';

/** How the frames of a video become clips, each of which is a row. */
export interface ClipCutOptions {
  /**
   * Frames of a clip.
   * @default 16
   */
  readonly frames: number;
  /**
   * Takes every so many frames.
   * @default 1
   */
  readonly stride: number;
  /**
   * Frames from the start of a clip to that of the next one. Clips overlap where it is smaller than `frames · stride`.
   * @default undefined, which is `frames · stride`
   */
  readonly step: number | undefined;
}

const MOST_FRAMES = 4096;
const MOST_STRIDE = 65_536;

export const CLIP_CUT_FIELDS: Fields<ClipCutOptions> = {
  frames: integer(1, MOST_FRAMES, 16, 'clips of n frames, out of folders of frames, GIFs and WebPs'),
  stride: integer(1, MOST_STRIDE, 1, 'take one frame of n: with 2, every second one'),
  step: optional(
    integer(
      1,
      MOST_FRAMES * MOST_STRIDE,
      16,
      'frames from the start of a clip to the next (default: frames · stride)',
    ),
  ),
};

/** Checked options. */
export interface ClipPlan {
  readonly frames: number;
  readonly stride: number;
  readonly step: number;
}

/** Checks the options of clips. Throws `OPTION_INVALID`. */
export function planClips(given: Options<ClipCutOptions>): ClipPlan {
  const { frames, stride, step } = readOptions(CLIP_CUT_FIELDS, given, 'clips', 'clips.');
  return { frames, stride, step: step ?? frames * stride };
}

/** Frames from the first to the last of a clip, both included. */
export function spanOf({ frames, stride }: ClipPlan): number {
  return (frames - 1) * stride + 1;
}
