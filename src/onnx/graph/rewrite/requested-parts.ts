/** Everything that a request computes beside the kept nodes: an image input, parts after outputs; and the types that it states. */
import type { TensorType } from '../../file/wire/write-model.js';
import type { Value } from '../graph.js';
import type { Dim } from '../../file/wire/schema.js';
import { imageInput, imageSize } from '../image-axes.js';
import { provenLayout } from '../layout.js';
import type { TokenParts } from '../token-parts.js';
import { isPlain, withFeatureParts, type FeatureParts } from './feature-parts.js';
import { withImageInput, type ImageNormalization } from './image-input.js';
import { withPhotoInput, type PhotoFront } from './photo-input.js';
import type { Rewrite, RewriteOutput } from './rewrite.js';
import type { TokenPlaces } from '../places.js';
import type { MeasuredTokens, Size } from './token-grid.js';
import { withNumbers } from './whole-numbers.js';

/** The parts of a request. */
export interface RequestedParts {
  readonly image: ImageNormalization | undefined;
  readonly photo: PhotoFront | undefined;
  /** The parts after an output, by its key. */
  readonly partsOf: (key: string) => FeatureParts;
}

/** The types of values: what the file states, else what ONNX Runtime reports. */
export type TypeOf = (value: Value) => TensorType | undefined;

/** What is known of the values that parts are added to. */
export interface KnownValues {
  readonly typeOf: TypeOf;
  /** The tokens of a value of these dims, if they are proven. */
  readonly tokensOf: (value: Value, dims: readonly Dim[] | null) => TokenParts | null;
  /** Where the patches of a value's tokens are, for a photo of the size that was measured, or that the file states. */
  readonly placesOf: (value: Value, size: Size | undefined) => TokenPlaces | 'moved' | null;
  /** Tokens that were measured, because neither the file nor the graph proves them. */
  readonly measured: ReadonlyMap<Value, MeasuredTokens>;
}

/**
 * Adds the requested parts.
 *
 * @param named - How many outputs are requested. Further ones exist only for comparison.
 * @param pixels - The input that takes the pixels, if it is known.
 * @throws {@link TapirError} those of {@link withImageInput}, {@link withPhotoInput} and {@link withFeatureParts}.
 */
export function withRequestedParts(
  cut: Rewrite,
  request: RequestedParts,
  known: KnownValues,
  named: number,
  pixels?: Value,
): Rewrite {
  let rewrite = withPixels(cut, request, pixels);
  for (const output of rewrite.outputs.slice(0, named))
    rewrite = withParts(rewrite, output, request.partsOf(output.key), known);
  return rewrite;
}

function withPixels(cut: Rewrite, { image, photo }: RequestedParts, pixels: Value | undefined): Rewrite {
  if (photo) return withPhotoInput(cut, photo, pixels);
  return image ? withImageInput(cut, image, pixels) : cut;
}

function withParts(
  whole: Rewrite,
  asked: RewriteOutput,
  parts: FeatureParts,
  { typeOf, tokensOf, placesOf, measured }: KnownValues,
): Rewrite {
  const { levels } = asked;
  const [rewrite, output] = levels
    ? withNumbers(whole, asked, levels, isPlain(parts), typeOf)
    : ([whole, asked] as const);
  if (isPlain(parts)) return rewrite;
  const { elemType = 0, dims } =
    output.type ?? rewrite.restated.get(output.value) ?? typeOf(output.value) ?? {};
  const { graph, inputs } = rewrite.cut;
  const image = imageInput(graph);
  return withFeatureParts(rewrite, output, parts, {
    elemType,
    dims: dims ?? [],
    layout: dims ? provenLayout(graph, output.value, dims) : null,
    imageSize: imageSize(graph),
    image: image && inputs.includes(image.value) ? image : undefined,
    tokens: tokensOf(output.value, dims ?? null),
    placesOf: () => placesOf(output.value, measured.get(output.value)?.imageSize),
    measured: measured.get(output.value),
  });
}
