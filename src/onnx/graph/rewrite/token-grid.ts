/** The grid of patch tokens `[N, L, C]`: its rows and columns, and the tokens before the patches. */
import { TapirError } from '../../../base/errors.js';
import type { Dim } from '../../file/wire/schema.js';
import type { ImageAxes } from '../image-axes.js';
import type { TokenPlaces } from '../places.js';
import type { TokenParts } from '../token-parts.js';
import type { NodeBuilder } from './node-builder.js';

export type Size = readonly [height: number, width: number];

/** The tokens of a value whose number the file leaves open, as runs of the graph show them. */
export interface MeasuredTokens {
  /** Height and width of the image in the first run. */
  readonly imageSize: Size;
  /** Tokens and channels in that run. */
  readonly tokens: number;
  readonly channels: number;
  /** How the number depends on the image size; undefined if the graph takes only one size. */
  readonly follows: FollowingTokens | undefined;
}

/** Tokens whose number grows with the image. */
export interface FollowingTokens {
  /** The tensor that holds the image, and the axis of its height; that of its width comes next. */
  readonly image: string;
  readonly axis: number;
  /** Side of a patch, in pixels. */
  readonly patch: number;
  /** Tokens before the patches. */
  readonly prefix: number;
}

/** A grid of patch tokens after some others (class, registers). */
export interface TokenGrid {
  readonly prefix: number;
  /** Rows and columns; null if they depend on the image, see `follows`. */
  readonly size: Size | null;
  readonly follows: FollowingTokens | undefined;
  /** The tokens of the patches, row by row, where they are not those behind the prefix. */
  readonly tokens?: readonly number[];
}

/** Tokens before the patches: none, a class token, and a distillation token (DeiT) or four registers (DINOv2). */
const PREFIX_TOKENS = [0, 1, 2, 4, 5];
/** Rarer counts of registers, taken only where the image size confirms them. */
const RARE_PREFIX_TOKENS = [3, 8, 9, 16, 17];

/** The grid of a known number of tokens: patches of one size over the image, or a square where its size is not known. */
function countedGrid(tokens: number, imageSize: Size | undefined): TokenGrid | undefined {
  const [height, width] = imageSize ?? [1, 1];
  const divisor = greatestDivisor(height, width);
  // The image in units of which both sides hold a whole number; a grid is a multiple of them.
  const [rows, columns] = [height / divisor, width / divisor];
  for (const prefix of imageSize ? [...PREFIX_TOKENS, ...RARE_PREFIX_TOKENS] : PREFIX_TOKENS) {
    if (prefix >= tokens) continue;
    const scale = Math.sqrt((tokens - prefix) / (rows * columns));
    if (Number.isInteger(scale) && (imageSize === undefined || divisor % scale === 0))
      return { size: [rows * scale, columns * scale], prefix, follows: undefined };
  }
  return undefined;
}

/** The grid of tokens in a run, whose image may leave pixels at its edges that fill no patch. */
function croppedGrid({ tokens, imageSize: [height, width] }: MeasuredTokens): TokenGrid | undefined {
  for (const prefix of PREFIX_TOKENS) {
    for (let patch = 1; patch <= Math.min(height, width); patch++) {
      const size: Size = [Math.floor(height / patch), Math.floor(width / patch)];
      if (size[0] * size[1] === tokens - prefix) return { size, prefix, follows: undefined };
    }
  }
  return undefined;
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

/** The grid of proven tokens: that of the image's size, or one that follows an image of open sides; undefined if the graph starts behind the image. */
export function provenGrid(
  { patches: [prefix, end], patchSize: patch }: TokenParts,
  imageSize: Size | undefined,
  image: ImageAxes | undefined,
): TokenGrid | undefined {
  if (!imageSize) {
    const follows = image && { image: image.value.name, axis: image.axis, patch, prefix };
    return follows && { prefix, size: null, follows };
  }
  const [rows, columns] = imageSize.map((side) => Math.floor(side / patch)) as [number, number];
  return end === null || end - prefix === rows * columns
    ? { prefix, size: [rows, columns], follows: undefined }
    : undefined;
}

/** The grid of tokens whose places the graph tells, for a photo of one size. */
export function placedGrid({ size, count, tokens }: TokenPlaces): TokenGrid {
  const [prefix] = tokens as [number];
  const isBehind = tokens.length === count - prefix && tokens.every((token, i) => token === prefix + i);
  return { prefix, size, follows: undefined, ...(isBehind ? {} : { tokens }) };
}

/** Why tokens make no map, where something may have moved them. */
export const MOVED = 'its graph moves the patches of a photo in a way that cannot be read';

/** The error for such tokens. */
export function movedPatches(output: string): TapirError<'FEATURE_AMBIGUOUS'> {
  return new TapirError(
    'FEATURE_AMBIGUOUS',
    `"${output}" has tokens, but ${MOVED}; export the model for one image size, request a layer in which they are in rows again, or take the tokens as they are and put them in rows yourself`,
    { details: { output, part: 'patches', reason: MOVED } },
  );
}

/** Finds the grid of tokens that are not proven. Returns the reason as text if there is no grid. */
export function findGrid(
  tokens: Dim | undefined,
  imageSize: Size | undefined,
  measured: MeasuredTokens | undefined,
): TokenGrid | string {
  if (measured?.follows) return { prefix: measured.follows.prefix, size: null, follows: measured.follows };
  const count = typeof tokens === 'number' ? tokens : measured?.tokens;
  const size = measured?.imageSize ?? imageSize;
  if (count === undefined)
    return 'the number of its tokens is open, and runs of the graph do not show how it depends on the image size; export the model for one image size';
  const image = size ? `an image of ${size.join('×')}` : 'a square image';
  return (
    countedGrid(count, size) ??
    (measured && croppedGrid(measured)) ??
    `its ${count} tokens are no grid of patches of ${image} with class or register tokens before it`
  );
}

/** Adds the Reshape of channels `[N, C, L]` to a map `[N, C, H, W]`; returns the name of the map. */
export function reshapeToMap(nodes: NodeBuilder, input: string, { size, follows }: TokenGrid): string {
  // 0 keeps a size.
  if (size) return nodes.reshape(input, [0, 0, ...size]);
  const { image, axis, patch } = follows!;
  const sides = nodes.sliceFrom(nodes.add('Shape', [image]), 0, axis, axis + 2);
  const grid = nodes.add('Div', [sides, nodes.integers([patch, patch])]);
  const shape = nodes.add('Concat', [nodes.integers([0, 0]), grid], { axis: 0 });
  return nodes.add('Reshape', [input, shape]);
}

/** A line for the plan about tokens that were measured. */
export function describeTokens(request: string, measured: MeasuredTokens): string {
  const { imageSize, tokens, follows } = measured;
  const grid = findGrid(undefined, undefined, measured);
  const run = `"${request}" has ${tokens} tokens in a run on an image of ${imageSize.join('×')}`;
  if (typeof grid === 'string') return run;
  const patches = !grid.size
    ? `patches of ${follows!.patch}×${follows!.patch} pixels`
    : `a grid of ${grid.size.join('×')} patches`;
  const { prefix } = grid;
  const before = prefix === 0 ? '' : ` after ${prefix} other ${prefix === 1 ? 'token' : 'tokens'}`;
  return `${run}: ${patches}${before}`;
}
