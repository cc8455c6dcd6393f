/** Whether the pixels in a file that takes photos have the right bits here: its test picture against the digest in its metadata. */
import { reasonOf, TapirError } from '../../base/errors.js';
import { readModelMetadata } from '../../onnx/file/model-metadata.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import { makeTensor } from '../../onnx/tensor/tensor.js';
import { PHOTO_INPUT, takesOnePhoto } from '../../onnx/tensor/tensor-info.js';
import { digestOf, PROOF_ENTRY, testPicture, type PhotoProof } from '../../photos/graph/photo-front.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import { yes, type Finding } from './finding.js';

/** The proof that a file states; undefined if it states none. Throws `TRANSFORM_UNSUPPORTED` for one that cannot be read. */
export function readProof(model: OnnxModel): PhotoProof | undefined {
  const text = modelInternals
    .of(model)
    .readNow((source) => readModelMetadata(new WireReader(source), [PROOF_ENTRY]).get(PROOF_ENTRY));
  if (text === undefined) return undefined;
  const refuse = (reason: string): TapirError =>
    new TapirError('TRANSFORM_UNSUPPORTED', `${PROOF_ENTRY} of the model's metadata ${reason}`, {
      details: { field: PROOF_ENTRY, reason },
    });
  try {
    const proof = JSON.parse(text) as Partial<PhotoProof> | null;
    const isSide = (side: unknown): boolean =>
      Number.isInteger(side) && Number(side) > 0 && Number(side) <= 4096;
    const isWhole = typeof proof?.tensor === 'string' && typeof proof.sha256 === 'string';
    if (isWhole && isSide(proof.height) && isSide(proof.width)) return proof as PhotoProof;
  } catch (error) {
    throw refuse(`is no JSON (${reasonOf(error)})`);
  }
  throw refuse('lacks the tensor, the digest, or the size of the picture');
}

/** Runs the test picture of a file on a device, up to the tensor that the proof names. */
export async function checkProof(model: OnnxModel, proof: PhotoProof, device: Device): Promise<Finding> {
  const picture = testPicture(proof);
  await using extractor = await createFeatureExtractor(
    model,
    { [`tensor:${proof.tensor}`]: 'pixels' },
    { device, outputDtype: 'keep' },
  );
  const { height, width, data } = picture;
  const input = extractor.inputs.find(({ name }) => name === PHOTO_INPUT);
  const rows = input && takesOnePhoto(input) ? [] : [1];
  const photo = makeTensor('uint8', [...rows, height, width, 3], data);
  const { pixels } = await extractor.run({ [PHOTO_INPUT]: photo });
  const what = `the test picture on ${JSON.stringify(device)}`;
  if (digestOf(pixels) === proof.sha256) return yes(`${what}: the bits of onnx-tapir ${proof.version}`);
  return { verdict: 'no', says: `${what}: other bits than onnx-tapir ${proof.version} had` };
}
