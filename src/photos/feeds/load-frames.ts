/** The frames of a clip, decoded by several threads into one place. */
import { digestOf } from '../../base/digest.js';
import type { FileStamp } from '../../base/file-stamp.js';
import { misfitImage } from '../images/file/image-errors.js';
import type { DecodeLanes } from '../images/lanes/decode-lanes.js';
import type { DecodedSize } from '../images/lanes/decode-protocol.js';
import type { ClipPlan } from '../images/transform/clip-options.js';
import { fileOf, type ItemClip, type SourceItem } from './items/source-item.js';
import { joinStamps } from './read-item.js';

/**
 * Loads a clip.
 *
 * @param into - Receives its frames, one after the other.
 * @returns The size of a frame in its file, and a stamp of all frames.
 * @throws {@link TapirError} `IMAGE_*` of the first frame that cannot be read; `IMAGE_MISFIT` if frames have unlike sizes.
 */
export async function loadFrames(
  item: SourceItem,
  { start, files }: ItemClip,
  { frames, stride }: ClipPlan,
  lanes: DecodeLanes,
  into: Uint8Array,
): Promise<DecodedSize> {
  if (!files)
    return lanes.load(await fileOf(item), into, false, undefined, { first: start, count: frames, stride });
  const bytes = into.length / frames;
  const loads = files.map(async (file, at) => {
    if (file.error) throw file.error;
    return lanes.load(await fileOf(file), into.subarray(at * bytes, (at + 1) * bytes));
  });
  // All of them: nothing may write here once the clip has failed.
  const loaded = (await Promise.allSettled(loads)).map((load) => {
    if (load.status === 'rejected') throw load.reason as Error;
    return load.value;
  });
  const [first] = loaded as [DecodedSize];
  for (const [at, { width, height }] of loaded.entries())
    if (width !== first.width || height !== first.height)
      throw misfitImage(
        `frame ${start + at * stride} has ${width}×${height} pixels, and frame ${start} has ${first.width}×${first.height}`,
        item.path ?? 'the clip',
        'frames of a clip have one size',
      );
  const isMarked = (mark: keyof DecodedSize['marks']): boolean => loaded.some(({ marks }) => marks[mark]);
  return {
    ...first,
    marks: { isTurned: isMarked('isTurned'), isTransparent: isMarked('isTransparent') },
    stamp: stampOfFrames(loaded.map(({ stamp }, at) => joinStamps(stamp, files[at]!.stamp)!)),
  };
}

/** A stamp of several files: all bytes, the latest time, and a digest of their digests. */
export function stampOfFrames(stamps: readonly FileStamp[]): FileStamp {
  const digests = stamps.map(({ sha256 }) => sha256);
  const times = stamps.flatMap(({ modifiedMs }) => modifiedMs ?? []);
  return {
    sizeBytes: stamps.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    modifiedMs: times.length === 0 ? null : Math.max(...times),
    sha256: digests.includes(null) ? null : digestOf(digests.join('')),
  };
}
