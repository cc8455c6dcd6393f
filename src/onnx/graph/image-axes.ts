/** The image input of a graph, and where its height is. */
import { oncePer } from '../../base/once-per.js';
import type { Dim } from '../file/wire/schema.js';
import { tensorType, type Graph, type Value } from './graph.js';
import { likelyLayout } from './layout.js';

/** An image input. */
export interface ImageAxes {
  readonly value: Value;
  /** The axis of its height; that of its width comes next. */
  readonly axis: number;
}

/** The image input: an input with four axes, preferably with three channels. Every value of a listing asks. */
export const imageInput: (graph: Graph) => ImageAxes | undefined = oncePer(findImageInput);

function findImageInput(graph: Graph): ImageAxes | undefined {
  const sizes = graph.inputs.flatMap((value) => {
    const dims = tensorType(value)?.dims;
    return dims?.length === 4 ? [{ value, dims, layout: likelyLayout(dims) }] : [];
  });
  const isColour = ({ dims }: { readonly dims: readonly Dim[] }): boolean => dims[1] === 3 || dims[3] === 3;
  const image = sizes.find(isColour) ?? sizes.find(({ layout }) => layout !== null) ?? sizes[0];
  return image && { value: image.value, axis: image.layout === 'NHWC' ? 1 : 2 };
}

/** Height and width of the image input, if the file states them. */
export function imageSize(graph: Graph): readonly [height: number, width: number] | undefined {
  const image = imageInput(graph);
  if (!image) return undefined;
  const [height, width] = tensorType(image.value)!.dims!.slice(image.axis);
  return typeof height === 'number' && typeof width === 'number' ? [height, width] : undefined;
}
