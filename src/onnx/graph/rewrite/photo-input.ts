/**
 * Gives a model an input for photos as they are decoded. Added nodes compute the tensor that was the graph's input, under the same name, so kept
 * nodes stay unchanged. Which nodes these are is told by what makes the front (`src/photos/graph`).
 */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import { dimsText, type TensorInfo } from '../../tensor/tensor-info.js';
import type { Tensor } from '../../tensor/tensor.js';
import { tensorType, type Value } from '../graph.js';
import { opsetOf } from '../operator-sets.js';
import { NodeBuilder } from './node-builder.js';
import { keptInputs, type Rewrite } from './rewrite.js';

/** A decoded photo: `height × width × 3` bytes, RGB. */
export interface DecodedPhoto {
  readonly height: number;
  readonly width: number;
  readonly data: Uint8Array;
}

/** The pixels of a model as nodes in front of it. */
export interface PhotoFront {
  /** Whether the input is `[batch, height, width, 3]`; else it is `[height, width, 3]`. */
  readonly hasBatch: boolean;
  /** The model's input whose tensor is computed. */
  readonly input: string;
  /** What the written file's metadata says about it. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Adds the nodes from the photo to the model's input, whose name is `last`. */
  readonly build: (nodes: NodeBuilder, photo: string, last: string) => void;
  /** The tensor that the model's input takes for a photo, without a graph. */
  readonly tensorOf: (photo: DecodedPhoto) => Tensor;
}

/** The name of the input. */
export const PHOTO_INPUT = 'photo';
/** Reductions, Unsqueeze and Pad take the forms that they have since then. */
const LEAST_OPSET = 13;
const SIDES = ['height', 'width', 3] as const;

/** Whether an input takes decoded photos, and its graph prepares them. */
export function isPhotoInput({ name, dtype, dims }: TensorInfo): boolean {
  return name === PHOTO_INPUT && dtype === 'uint8' && dims?.slice(-3).join() === SIDES.join();
}

/**
 * Replaces a model's input by photos.
 *
 * @param chosen - The input, where the rewrite keeps more than the request.
 * @throws {@link TapirError} `INPUT_MISMATCH` if the cut lacks the input, the operator set is too old, or a fixed batch takes more than one photo.
 */
export function withPhotoInput(rewrite: Rewrite, front: PhotoFront, chosen?: Value): Rewrite {
  const { cut, names } = rewrite;
  const input = chosen ?? keptInputs(rewrite).find(({ name }) => name === front.input);
  const opset = opsetOf(cut.graph);
  if (opset < LEAST_OPSET)
    throw mismatch(
      `operator set ${LEAST_OPSET} or later (convert the model first: onnx.version_converter)`,
      `operator set ${opset}`,
    );
  if (!input) throw mismatch(`the model's input "${front.input}" among what is fed`, 'other inputs');
  const type = rewrite.restated.get(input) ?? tensorType(input)!;
  const batch = type.dims![0];
  if (!front.hasBatch && typeof batch === 'number' && batch !== 1)
    throw mismatch(
      'a model that takes one photo, or any number (input "photo-batch" takes as many as the model, batch "dynamic" any)',
      dimsText({ name: input.name, dtype: null, dims: type.dims! }),
    );
  const name = names.claim(PHOTO_INPUT);
  const nodes = new NodeBuilder(names, PHOTO_INPUT, opset, (reason) =>
    mismatch('a later operator set', reason),
  );
  front.build(nodes, name, input.name);
  const rows = front.hasBatch ? [batch ?? 'batch'] : [];
  return {
    ...rewrite,
    inputs: [...rewrite.inputs, { name, elemType: ELEMENT_TYPE.uint8, dims: [...rows, ...SIDES] }],
    computedInputs: new Set([...rewrite.computedInputs, input]),
    front: [...nodes.nodes, ...rewrite.front],
    tensors: [...rewrite.tensors, ...nodes.tensors],
    metadata: { ...rewrite.metadata, ...front.metadata },
  };
}

function mismatch(expected: string, actual: string): TapirError {
  return new TapirError('INPUT_MISMATCH', `input "photo" needs ${expected}; the model has ${actual}`, {
    details: { input: PHOTO_INPUT, expected, actual },
  });
}
