/** Photos in shared memory, and the feeds that are made of them. */
import type { ImageFile } from '../images/file/image-file.js';
import type { DecodeLanes } from '../images/lanes/decode-lanes.js';
import type { DecodedSize } from '../images/lanes/decode-protocol.js';
import { fillFeed, isShared, type Feed } from '../../onnx/tensor/image-feed.js';
import { meanOfRows, takeRow, takeRows } from '../../onnx/tensor/rows.js';
import type { NamedTensor, Tensor } from '../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { FeedPlan, HeldPhoto } from './feed-plan.js';

/** Rows of an input of a source, among those of its batch: where they begin, and how many there are. */
export type RowRange = readonly [first: number, count: number];

/** The feeds of one run. */
export interface PhotoRun {
  readonly feeds: readonly Feed[];
  /** Rows of the photos. A fixed batch may have more, of zeros. */
  readonly rows: number;
  /** The rows of the photos, of an output of the run: without those that pad a fixed batch, and joined if the processor says so. */
  readonly take: (output: Tensor) => Tensor;
}

/** A run of photos that decide the sizes of its feeds. */
export interface UnlikeRun extends PhotoRun {
  /** Which of the given photos run, by their index. */
  readonly photos: readonly number[];
  /** Whether each output must have a row per photo. */
  readonly hasRows: boolean;
  /** What one of them has of an output; see {@link UnlikePhotos.partOf}. */
  partOf(output: TensorInfo, tensor: Tensor, index: number): Tensor | undefined;
}

/** Memory for some photos. It can be filled again. */
export class PhotoMemory {
  readonly #plan: FeedPlan;
  readonly #places: (HeldPhoto | undefined)[];

  constructor(plan: FeedPlan, photos: number) {
    this.#plan = plan;
    // All tiles have one size, even where photos decide theirs.
    this.#places = plan.processor.size === null ? Array.from({ length: photos }) : fixedPlaces(plan, photos);
  }

  /** The bytes of a photo. */
  place(photo: number): Uint8Array {
    return this.#photo(photo).data;
  }

  /** Reads, decodes and transforms a photo in a thread, which leaves it here; see {@link DecodeLanes.load}. */
  async load(
    lanes: DecodeLanes,
    photo: number,
    source: ImageFile,
    isMeasured?: boolean,
    augmentSeed?: number,
  ): Promise<DecodedSize> {
    const { unlike } = this.#plan;
    const into = unlike ? undefined : this.place(photo);
    const { result, ...decoded } = await lanes.load(source, into, isMeasured, augmentSeed);
    if (unlike) this.#places[photo] = result;
    return decoded;
  }

  /** Whether photos decide the sizes of their feeds: {@link unlikeRuns} then takes the place of {@link run}. */
  get isUnlike(): boolean {
    return this.#plan.unlike !== null;
  }

  /** Orders photos: those with near numbers have similar shapes. 0 where all have one shape. */
  shapeOf(photo: number): number {
    return this.#plan.unlike?.shapeOf(this.#photo(photo)) ?? 0;
  }

  /** The rows of some photos of a run, in its order, among those that `take` of the run gives. */
  rangesOf(photos: readonly unknown[]): readonly RowRange[] {
    const { joins, rows: ofPhoto } = this.#plan.processor;
    const rows = joins ? 1 : ofPhoto;
    return photos.map((_, i) => [i * rows, rows]);
  }

  /** The feeds of a run of some photos, at least one, by their places. The memory must not change until the run has settled. */
  run(photos: readonly number[]): PhotoRun {
    return this.#run(photos.map((photo) => this.#photo(photo)));
  }

  /**
   * The runs of photos that decide the sizes of their feeds: sorted by shape, at most `batch` in each.
   *
   * @param photos - Their places.
   */
  unlikeRuns(photos: readonly number[], batch: number): UnlikeRun[] {
    const unlike = this.#plan.unlike!;
    const held = photos.map((photo) => this.#photo(photo));
    const shapes = held.map((photo) => unlike.shapeOf(photo));
    // Of one shape, the order of the source.
    const order = held.map((_, index) => index).sort((a, b) => shapes[a]! - shapes[b]! || a - b);
    const runs: number[][] = [];
    for (const index of order) {
      const last = runs.at(-1);
      const isAlike = last && (unlike.canMix || shapes[last[0]!] === shapes[index]);
      if (isAlike && last.length < batch) last.push(index);
      else runs.push([index]);
    }
    return runs.map((indices) => {
      const together = indices.map((index) => held[index]!);
      const { feeds, rows, take } = this.#run(together);
      return {
        feeds,
        rows,
        take,
        photos: indices,
        hasRows: unlike.hasRows,
        partOf: (output, tensor, index) => unlike.partOf(output, tensor, together, index),
      };
    });
  }

  /** The feeds of {@link run}, as tensors in memory of their own. */
  filled(photos: readonly number[]): Record<string, NamedTensor> {
    return byInput(this.run(photos).feeds);
  }

  /** The rows of some photos as tensors in memory of their own, by input. */
  tensors(photos: readonly number[]): Record<string, NamedTensor> {
    const rows = photos.length * this.#plan.processor.rows;
    return byInput(
      this.#plan.feedsOf(
        photos.map((photo) => this.#photo(photo)),
        rows,
      ),
    );
  }

  /** The same photos in other memory. */
  copy(): PhotoMemory {
    const copied = new PhotoMemory(this.#plan, this.#places.length);
    this.#places.forEach((held, photo) => {
      if (this.#plan.unlike) copied.#places[photo] = held && { ...held, data: held.data.slice() };
      else copied.place(photo).set(held!.data);
    });
    return copied;
  }

  #run(photos: readonly HeldPhoto[]): PhotoRun {
    const { multiple, processor } = this.#plan;
    const rows = photos.length * processor.rows;
    const fed = multiple === null ? rows : Math.ceil(rows / multiple) * multiple;
    const take = (output: Tensor): Tensor => {
      const taken = output.dims[0] === rows ? output : takeRows(output, 0, rows);
      return processor.joins ? meanOfRows(taken, processor.rows) : taken;
    };
    return { feeds: this.#plan.feedsOf(photos, fed), rows, take };
  }

  #photo(photo: number): HeldPhoto {
    return (this.#places[photo] ??= this.#plan.unlike!.blank());
  }
}

/** Places of one size, in one piece of memory. */
function fixedPlaces({ processor }: FeedPlan, photos: number): HeldPhoto[] {
  const { height, width } = processor.size!;
  const bytes = processor.bytes!;
  const data = new Uint8Array(new SharedArrayBuffer(photos * bytes));
  return Array.from({ length: photos }, (_, photo) => ({
    height,
    width,
    data: data.subarray(photo * bytes, (photo + 1) * bytes),
  }));
}

function byInput(feeds: readonly Feed[]): Record<string, NamedTensor> {
  return Object.fromEntries(feeds.map((feed) => [feed.name, isShared(feed) ? fillFeed(feed) : feed]));
}

/** The rows of one photo: without the batch axis where there is one. */
export function takePhoto(tensor: Tensor, [first, count]: RowRange): Tensor {
  return count === 1 ? takeRow(tensor, first) : takeRows(tensor, first, count);
}
