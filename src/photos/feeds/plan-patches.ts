/** How photos that are cut into patches feed a model: NaFlex with a row per photo, Qwen-VL one photo after the other. */
import { invalidOption } from '../../base/checks.js';
import { patchProcessor, type PatchOptions } from '../images/patches/patch-processors.js';
import { layoutOf } from '../images/patches/patch-tensors.js';
import { valuesOf } from '../images/transform/transform.js';
import { gridOf, patchLength, type PatchLayout } from '../../onnx/tensor/cut-patches.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import type { Feed } from '../../onnx/tensor/image-feed.js';
import { takeRow, takeRows } from '../../onnx/tensor/rows.js';
import { createData, elementCount, makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { dimsText, type TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { blankPhoto } from './blank-photo.js';
import type { FeedPlan, HeldPhoto, UnlikePhotos, Processor } from './feed-plan.js';
import { convertFeed, isMask, matchTensors, unmasked, type TensorMatch } from './match-tensors.js';
import type { ImageTaker } from './plan-images.js';

/** The tensors beside the pixels. */
type Aside = Readonly<Record<string, Tensor>>;

/** Plans how patches feed a model. Throws `INPUT_MISMATCH`, `OPTION_INVALID`. */
export function planPatches({ inputs }: ImageTaker, processor: Processor, patches: PatchOptions): FeedPlan {
  const match = matchTensors(inputs, processor.tensors);
  const mask = match.left.find(isMask);
  if (mask !== undefined) throw unmasked(mask);
  const pixels = pixelInput(match);
  const layout = layoutOf(patches);
  const values = valuesOf(processor.transform);
  const shared = {
    name: pixels.name,
    dtype: pixels.dtype === 'float16' ? 'float16' : 'float32',
    layout,
    values: pixels.dtype === 'float16' ? encodeFloat16(values) : values,
  } as const;
  const padded = patchProcessor(patches).paddedTo(patches);
  const form =
    padded === null
      ? joined(pixels, layout, match.inputs.get('image_grid_thw'))
      : stacked(pixels, layout, padded);
  const asideOf = (photos: readonly HeldPhoto[]): Feed[] =>
    Object.entries(form.aside(photos)).flatMap(([name, tensor]) => {
      const input = match.inputs.get(name);
      return input ? [convertFeed(input, tensor)] : [];
    });
  return {
    processor,
    inputs: [pixels, ...[...match.inputs.values()].filter((input) => input !== pixels)].map(
      ({ name }) => name,
    ),
    multiple: form.multiple,
    takesPixels: false,
    isLast: false,
    isPlain: false,
    unlike: { ...form.unlike, blank: () => blankPhoto(processor.transform) },
    feedsOf: (photos, rows) => {
      // A fixed batch is filled with the last photo: a model may fail on photos of no patches.
      const fed = [...photos, ...Array.from({ length: rows - photos.length }, () => photos.at(-1)!)];
      const feed = { ...shared, dims: [...form.rowsOf(fed), patchLength(layout)], images: fed };
      const byName = new Map([feed, ...asideOf(fed)].map((one) => [one.name, one]));
      return inputs.map(({ name }) => byName.get(name)!);
    },
  };
}

/** How photos share the first axes of the feeds, and what they have of outputs. */
interface Form {
  readonly multiple: number | null;
  rowsOf(photos: readonly HeldPhoto[]): readonly number[];
  aside(photos: readonly HeldPhoto[]): Aside;
  readonly unlike: Omit<UnlikePhotos, 'blank'>;
}

/** The input that takes patches. Throws `OPTION_INVALID`. */
function pixelInput({ inputs }: TensorMatch): TensorInfo {
  const input = inputs.get('pixel_values')!;
  const { dtype } = input;
  if (dtype === null || dtype === 'float32' || dtype === 'float16') return input;
  throw invalidOption('model', 'one that takes patches in float32 or float16', `${input.name} ${dtype}`);
}

function checkFit(pixels: TensorInfo, fits: boolean, given: string): void {
  if (fits) return;
  const expected = `one that fits the model's input "${pixels.name}" ${dimsText(pixels)}`;
  throw invalidOption('transform', expected, given);
}

/** A row per photo, padded to the longest of a run, or to the number of the graph. */
function stacked(pixels: TensorInfo, layout: PatchLayout, maxPatches: number): Form {
  const length = patchLength(layout);
  const [rows, patches, numbers] = pixels.dims ?? [null, null, null];
  const fits =
    (pixels.dims === null || pixels.dims.length === 3) &&
    (typeof numbers !== 'number' || numbers === length) &&
    (typeof patches !== 'number' || patches >= maxPatches);
  checkFit(pixels, fits, `[1, ${maxPatches}, ${length}] for each photo`);
  const countOf = (photo: HeldPhoto): number => countPatches(photo, layout);
  const longest = (photos: readonly HeldPhoto[]): number =>
    typeof patches === 'number' ? patches : Math.max(...photos.map(countOf));
  return {
    multiple: typeof rows === 'number' ? rows : null,
    rowsOf: (photos) => [photos.length, longest(photos)],
    aside: (photos) => {
      const wide = longest(photos);
      const mask = new Int32Array(photos.length * wide);
      photos.forEach((photo, row) => mask.fill(1, row * wide, row * wide + countOf(photo)));
      return {
        pixel_attention_mask: makeTensor('int32', [photos.length, wide], mask),
        spatial_shapes: gridTensor(photos.map((photo) => gridOf(photo, layout))),
      };
    },
    unlike: {
      canMix: true,
      hasRows: true,
      shapeOf: countOf,
      partOf: ({ dims }, tensor, photos, index) => {
        const row = takeRow(tensor, index);
        const hasTokens = typeof patches === 'string' && dims?.[1] === patches;
        return hasTokens ? padRows(row, countOf(photos[index]!), maxPatches) : row;
      },
    },
  };
}

/** The patches of all photos, one photo after the other. */
function joined(pixels: TensorInfo, layout: PatchLayout, grid: TensorInfo | undefined): Form {
  const length = patchLength(layout);
  const [patches, numbers] = pixels.dims ?? [null, null];
  const fits =
    (pixels.dims === null || pixels.dims.length === 2) &&
    (typeof numbers !== 'number' || numbers === length) &&
    typeof patches !== 'number';
  checkFit(pixels, fits, `[patches, ${length}], with a number of patches that the photo decides`);
  const countOf = (photo: HeldPhoto): number => countPatches(photo, layout);
  const total = (photos: readonly HeldPhoto[]): number =>
    photos.reduce((sum, photo) => sum + countOf(photo), 0);
  const images = grid?.dims?.[0];
  return {
    multiple: typeof images === 'number' ? images : null,
    rowsOf: (photos) => [total(photos)],
    aside: (photos) => ({
      image_grid_thw: gridTensor(photos.map((photo) => [1, ...gridOf(photo, layout)])),
    }),
    unlike: {
      canMix: true,
      hasRows: false,
      shapeOf: countOf,
      partOf: ({ dims }, tensor, photos, index) => {
        if (typeof images === 'string' && dims?.[0] === images) return takeRow(tensor, index);
        // Rows of patches, or of the blocks that the model merged.
        const perRow = total(photos) / tensor.dims[0]!;
        const [before, own] = [total(photos.slice(0, index)), countOf(photos[index]!)];
        const isWhole = [perRow, before / perRow, own / perRow].every(Number.isInteger);
        return isWhole ? takeRows(tensor, before / perRow, own / perRow) : undefined;
      },
    },
  };
}

function countPatches(photo: HeldPhoto, layout: PatchLayout): number {
  const [rows, columns] = gridOf(photo, layout);
  return rows * columns;
}

function gridTensor(grids: readonly (readonly number[])[]): Tensor {
  return makeTensor('int64', [grids.length, grids[0]!.length], BigInt64Array.from(grids.flat(), BigInt));
}

/** The first rows of a tensor, and zeros up to `size` of them: what a model makes of padding depends on the other photos. */
function padRows({ dtype, dims, data }: Tensor, rows: number, size: number): Tensor {
  const [, ...inner] = dims;
  const made = createData(dtype, size * elementCount(inner)) as Float32Array;
  made.set((data as Float32Array).subarray(0, rows * elementCount(inner)));
  return makeTensor(dtype, [size, ...inner], made);
}
