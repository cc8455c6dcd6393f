/** The pixels of a model's transform as nodes in front of it, with what proves them. */
import { createHash } from 'node:crypto';
import { packageVersion } from '../../base/package.js';
import type { DecodedPhoto, PhotoFront } from '../../onnx/graph/rewrite/photo-input.js';
import { encodeFloat16 } from '../../onnx/tensor/float16.js';
import { createData, elementCount, makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { imageOf } from '../images/transform/load-pixels.js';
import type { Transform } from '../images/transform/transform.js';
import { addPhotoGraph, checkPhotoGraph, type PixelTarget } from './photo-graph.js';

/** Entries of the metadata. */
export const TRANSFORM_ENTRY = 'tapir.transform';
export const PROOF_ENTRY = 'tapir.proof';

/** What the metadata says about a test picture. */
export interface PhotoProof {
  /** The name of the tensor that the picture becomes, inside the graph. */
  readonly tensor: string;
  readonly dtype: string;
  readonly dims: readonly number[];
  /** Digest of its elements, little-endian. */
  readonly sha256: string;
  /** The size of the test picture, and each of its bytes as a formula. */
  readonly height: number;
  readonly width: number;
  readonly photo: string;
  /** The version of onnx-tapir that wrote it. */
  readonly version: string;
}

/** Smooth at the left and at the top, and finer than any resize elsewhere. */
const FORMULA = 'photo[y][x][c] = (3*x*x + 5*y*y + 7*x*y + 89*c) mod 256';
const SIZE = { height: 301, width: 457 } as const;

/** The test picture of a proof. */
export function testPicture({
  height,
  width,
}: {
  readonly height: number;
  readonly width: number;
}): DecodedPhoto {
  const data = new Uint8Array(height * width * 3);
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++) data[at++] = 3 * x * x + 5 * y * y + 7 * x * y + 89 * c;
  return { height, width, data };
}

/**
 * The front of a model for a transform.
 *
 * @throws {@link TapirError} `TRANSFORM_UNSUPPORTED` for what has no exact form in operators of ONNX.
 */
export function createPhotoFront(
  transform: Transform,
  target: PixelTarget & { readonly input: string; readonly hasBatch: boolean },
): PhotoFront {
  checkPhotoGraph(transform);
  const { input, hasBatch } = target;
  const tensorOf = (photos: readonly DecodedPhoto[]): Tensor =>
    stack(photos.map((photo) => tensorOfPhoto(transform, target, photo)));
  const proven = tensorOf([testPicture(SIZE)]);
  const proof: PhotoProof = {
    tensor: input,
    dtype: proven.dtype,
    dims: proven.dims,
    sha256: digestOf(proven),
    ...SIZE,
    photo: FORMULA,
    version: packageVersion(),
  };
  return {
    hasBatch,
    input,
    metadata: {
      [TRANSFORM_ENTRY]: JSON.stringify(transform.options),
      [PROOF_ENTRY]: JSON.stringify(proof),
    },
    build: (nodes, photo, last) => addPhotoGraph(nodes, transform, target, { photo, hasBatch, last }),
    tensorOf,
  };
}

/** The digest of a tensor's elements. */
export function digestOf({ data }: Tensor): string {
  const { buffer, byteOffset, byteLength } = data as Uint8Array;
  return createHash('sha256')
    .update(new Uint8Array(buffer, byteOffset, byteLength))
    .digest('hex');
}

function tensorOfPhoto(transform: Transform, { dtype, isLast }: PixelTarget, photo: DecodedPhoto): Tensor {
  const laidOut = transform.with({ layout: isLast ? 'nhwc' : 'nchw' });
  // Grey changes the pixels that it is given.
  const image = { ...photo, data: photo.data.slice() };
  const pixels = laidOut.isFloat ? laidOut.applyFloat(image) : laidOut.apply(image);
  const loaded = imageOf({ image: pixels, from: photo, reduction: 1 }, laidOut);
  const { dims, data } = loaded.toTensor();
  if (dtype === 'float32') return makeTensor(dtype, dims, data);
  if (dtype === 'float16') return makeTensor(dtype, dims, encodeFloat16(data));
  const [, ...axes] = dims;
  const bytes = transform.channels === 1 ? loaded.data.filter((_, at) => at % 3 === 0) : loaded.data;
  return makeTensor(dtype, dims, isLast || axes[0] === 1 ? bytes : planesOf(bytes));
}

/** Tensors of one row and one shape as rows of one tensor. */
function stack(tensors: readonly Tensor[]): Tensor {
  const { dtype, dims } = tensors[0]!;
  const rows = tensors.length * elementCount(dims);
  const data = createData(dtype, rows) as Uint8Array;
  // All have the same dtype.
  for (const [row, tensor] of tensors.entries())
    data.set(tensor.data as Uint8Array, row * elementCount(dims));
  return makeTensor(dtype, [tensors.length, ...dims.slice(1)], data);
}

function planesOf(pixels: Uint8Array): Uint8Array {
  const plane = pixels.length / 3;
  return Uint8Array.from(pixels, (_, at) => pixels[(at % plane) * 3 + Math.trunc(at / plane)]!);
}
