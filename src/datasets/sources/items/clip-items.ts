/** Images of a source → clips: frames that follow each other in a folder, and pages of a GIF or WebP. */
import { sep } from 'node:path';
import type { TapirError } from '../../../base/errors.js';
import { misfitImage } from '../../../photos/images/file/image-errors.js';
import { readImageFile } from '../../../photos/images/file/image-file.js';
import { countPages } from '../../../photos/images/formats/pages.js';
import { spanOf, type ClipPlan } from '../../../photos/images/transform/clip-options.js';
import { fileOf, type SourceItem } from '../../../photos/feeds/items/source-item.js';

/**
 * Cuts the images of a source into clips, each of which is an item.
 *
 * @remarks Holds the items of one clip for each folder above the current one.
 */
export async function* clipItems(
  source: AsyncIterable<SourceItem>,
  plan: ClipPlan,
): AsyncGenerator<SourceItem> {
  /** Each lies in the one before it: a folder lists its subfolders among its frames. */
  const open: FrameFolder[] = [];
  for await (const item of source) {
    // A folder that cannot be listed.
    if (item.error && item.path?.endsWith('/') === true) {
      yield item;
      continue;
    }
    const pages = await pagesOf(item);
    if (pages > 1) {
      yield* clipsOfPages(item, pages, plan);
      continue;
    }
    const path = folderOf(item.path);
    while (open.length > 0 && !open.at(-1)!.holds(path)) yield* open.pop()!.end();
    if (open.at(-1)?.path !== path) open.push(new FrameFolder(path, plan));
    yield* open.at(-1)!.add(item);
  }
  while (open.length > 0) yield* open.pop()!.end();
}

/** Names that a file with several pages has. */
const PAGED = /\.(gif|webp)$/i;

/** The number of pages of a file, if it can have several; what is wrong with it shows when it is decoded. */
async function pagesOf(item: SourceItem): Promise<number> {
  const { path, image, error } = item;
  // A body without a name can be read once only.
  const canBe = path === null ? typeof image !== 'function' : PAGED.test(path);
  if (error || !canBe) return 1;
  try {
    return countPages(readImageFile(await fileOf(item)));
  } catch {
    return 1;
  }
}

function* clipsOfPages(item: SourceItem, pages: number, plan: ClipPlan): Generator<SourceItem> {
  const span = spanOf(plan);
  for (let start = 0; start + span <= pages; start += plan.step) yield { ...item, clip: { start } };
  if (span > pages) yield { ...item, clip: { start: 0 }, error: tooFew(pages, plan, item.path) };
}

/** The folder of a file, as a path; `.` for the folder that is the source, null for bytes. */
function folderOf(path: string | null): string | null {
  if (path === null) return null;
  const end = Math.max(path.lastIndexOf('/'), sep === '/' ? -1 : path.lastIndexOf(sep));
  return end < 0 ? '.' : path.slice(0, Math.max(1, end));
}

/** A folder of frames that is being read. */
class FrameFolder {
  readonly path: string | null;
  readonly #plan: ClipPlan;
  /** The frames from the start of the next clip on. */
  #frames: SourceItem[] = [];
  #start = 0;
  #count = 0;
  #last: string | null = null;
  /** Why its frames make no clips. */
  #error: TapirError<'IMAGE_MISFIT'> | undefined;

  constructor(path: string | null, plan: ClipPlan) {
    this.path = path;
    this.#plan = plan;
  }

  /** Whether another folder lies in it, or is the same. */
  holds(path: string | null): boolean {
    if (path === this.path || this.path === null || path === null) return path === this.path;
    return this.path === '.' ? !path.startsWith('/') : path.startsWith(`${this.path}/`);
  }

  *add(frame: SourceItem): Generator<SourceItem> {
    if (isOutOfOrder(this.#last, frame.path))
      this.#error ??= misfitImage(
        `"${frame.path}" comes right after "${this.#last}", so its frames are not in the order of their numbers`,
        this.path ?? 'the clip',
        'number them with leading zeros (ffmpeg: %06d.png)',
      );
    this.#last = frame.path;
    // With a step that is longer than a clip, frames between clips are left out.
    if (this.#count++ >= this.#start) this.#frames.push(frame);
    if (this.#frames.length < spanOf(this.#plan)) return;
    yield this.#clip(
      this.#frames.filter((_, at) => at % this.#plan.stride === 0),
      this.#error,
    );
    this.#frames = this.#frames.slice(this.#plan.step);
    this.#start += this.#plan.step;
  }

  /** A rest that is shorter than a clip is left out; of a folder that has no clip, it is an error. */
  *end(): Generator<SourceItem> {
    if (this.#start > 0) return;
    yield this.#clip(this.#frames, this.#error ?? tooFew(this.#count, this.#plan, this.path));
  }

  #clip(files: readonly SourceItem[], error: TapirError<'IMAGE_MISFIT'> | undefined): SourceItem {
    const [{ image, listed, columns }] = files as [SourceItem];
    return {
      path: this.path,
      image,
      ...(listed && { listed }),
      ...(columns && { columns }),
      ...(error && { error }),
      clip: { start: this.#start, files },
    };
  }
}

/** Whether a name is the one before with further digits: `frame10` after `frame1`, as bytes sort. */
function isOutOfOrder(before: string | null, path: string | null): boolean {
  const stem = before?.replace(/\.[^./]*$/, '');
  if (stem === undefined || path === null || !/\d$/.test(stem) || !path.startsWith(stem)) return false;
  return /^\d+(\.[^./]*)?$/.test(path.slice(stem.length));
}

function tooFew(there: number, plan: ClipPlan, path: string | null): TapirError<'IMAGE_MISFIT'> {
  const reason = `it has ${there} frames, and a clip needs ${spanOf(plan)}`;
  return misfitImage(reason, path ?? 'the clip', 'ask for fewer frames, or a smaller stride');
}
