/**
 * Gives a model an input for photos as they are decoded. Added nodes compute the tensor that was the graph's input, under the same name, so kept
 * nodes stay unchanged. Which nodes these are is told by what makes the front (`src/photos/graph`).
 */
import { TapirError } from '../../../base/errors.js';
import { ELEMENT_TYPE } from '../../file/wire/schema.js';
import { dimsText, PHOTO_AXES, PHOTO_INPUT } from '../../tensor/tensor-info.js';
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
  /** The tensor that the model's input takes for photos, without a graph. Throws `IMAGE_MISFIT` for photos that the transform refuses. */
  readonly tensorOf: (photos: readonly DecodedPhoto[]) => Tensor;
}

/** Reductions, Unsqueeze and Pad take the forms that they have since then. */
const LEAST_OPSET = 13;

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
  if (name !== PHOTO_INPUT) throw mismatch('that no tensor is called so', 'one');
  const refuse = (reason: string): TapirError => mismatch('a later operator set', reason);
  const nodes = new NodeBuilder(names, PHOTO_INPUT, opset, refuse, true);
  front.build(nodes, name, input.name);
  const rows = front.hasBatch ? [batch ?? 'batch'] : [];
  const [first = 1] = rows;
  // Runtimes fuse nodes of the model only where they know that shapes are the same, so the tensor keeps the name of its batch.
  const stated = { name: input.name, elemType: type.elemType, dims: [first, ...type.dims!.slice(1)] };
  return {
    ...rewrite,
    inputs: [...rewrite.inputs, { name, elemType: ELEMENT_TYPE.uint8, dims: [...rows, ...PHOTO_AXES] }],
    computedInputs: new Set([...rewrite.computedInputs, input]),
    front: [...nodes.nodes, ...rewrite.front],
    tensors: [...rewrite.tensors, ...nodes.tensors],
    stated: [...rewrite.stated, stated],
    metadata: { ...rewrite.metadata, ...front.metadata },
  };
}

function mismatch(expected: string, actual: string): TapirError {
  return new TapirError('INPUT_MISMATCH', `input "photo" needs ${expected}; the model has ${actual}`, {
    details: { input: PHOTO_INPUT, expected, actual },
  });
}
