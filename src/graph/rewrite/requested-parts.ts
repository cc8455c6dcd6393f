/** Everything that a request computes beside the kept nodes: an image input, parts after outputs; and the types that it states. */
import type { TensorType } from '../../onnx/wire/write-model.js';
import type { Value } from '../graph.js';
import { imageSize } from '../image-axes.js';
import { provenLayout } from '../layout.js';
import { isPlain, withFeatureParts, type FeatureParts } from './feature-parts.js';
import { withImageInput, type ImageNormalization } from './image-input.js';
import type { Rewrite, RewriteOutput } from './rewrite.js';
import type { MeasuredTokens } from './token-grid.js';

/** The parts of a request. */
export interface RequestedParts {
  readonly image: ImageNormalization | undefined;
  /** The parts after an output, by its key. */
  readonly partsOf: (key: string) => FeatureParts;
  /** State dtype and dims of every output in the written file. */
  readonly fillTypes: boolean;
}

/** The types of values: what the file states, else what ONNX Runtime reports. */
export type TypeOf = (value: Value) => TensorType | undefined;

/** What is known of the values that parts are added to. */
export interface KnownValues {
  readonly typeOf: TypeOf;
  /** Tokens that were measured, because the file leaves their number open. */
  readonly tokens: ReadonlyMap<Value, MeasuredTokens>;
}

/**
 * Adds the requested parts.
 *
 * @param named - How many outputs are requested. Further ones exist only for comparison.
 * @param imageInput - The input that takes the pixels, if it is known.
 * @throws {@link TapirError} those of {@link withImageInput} and {@link withFeatureParts}.
 */
export function withRequestedParts(
  cut: Rewrite,
  request: RequestedParts,
  known: KnownValues,
  named: number,
  imageInput?: Value,
): Rewrite {
  let rewrite = request.image ? withImageInput(cut, request.image, imageInput) : cut;
  for (const output of rewrite.outputs.slice(0, named))
    rewrite = withParts(rewrite, output, request.partsOf(output.key), known);
  return request.fillTypes ? withTypes(rewrite, known.typeOf) : rewrite;
}

function withParts(
  rewrite: Rewrite,
  output: RewriteOutput,
  parts: FeatureParts,
  { typeOf, tokens }: KnownValues,
): Rewrite {
  if (isPlain(parts)) return rewrite;
  const { elemType = 0, dims } = rewrite.restated.get(output.value) ?? typeOf(output.value) ?? {};
  const { graph } = rewrite.cut;
  return withFeatureParts(rewrite, output, parts, {
    elemType,
    dims: dims ?? [],
    layout: dims ? provenLayout(graph, output.value, dims) : null,
    imageSize: imageSize(graph),
    tokens: tokens.get(output.value),
  });
}

function withTypes(rewrite: Rewrite, typeOf: TypeOf): Rewrite {
  return {
    ...rewrite,
    outputs: rewrite.outputs.map((output) => ({
      ...output,
      type: output.type ?? rewrite.restated.get(output.value) ?? typeOf(output.value),
    })),
  };
}
