/** A rewrite as a session opens it: its bytes, and the folder of its external weights. */
import { TapirError } from '../errors.js';
import { collectChunks } from '../onnx/emit.js';
import { checkExternalFiles } from '../onnx/external-data.js';
import { WireReader } from '../onnx/wire.js';
import { externalTensors } from '../rewrite/describe.js';
import { layOutRewrite } from '../rewrite/lay-out.js';
import type { Rewrite } from '../rewrite/rewrite.js';
import { readDevice } from '../runtime/device.js';
import { openLane, type Lane } from '../runtime/lane.js';
import type { LaneDescription } from '../runtime/protocol.js';
import { readSessionOptions } from '../runtime/session-options.js';
import { stateOf, type OnnxModel } from './open-model.js';

/** What a lane needs to open a rewritten model, without device and session options. */
export async function describeModel(
  model: OnnxModel,
  rewrite: Rewrite,
): Promise<Pick<LaneDescription, 'model' | 'externalFolder'>> {
  return { model: await sessionBytes(model, rewrite), externalFolder: externalFolder(model, rewrite) };
}

/** The bytes that a session is opened from: outputs under the tensors' own names. */
function sessionBytes(model: OnnxModel, rewrite: Rewrite): Promise<Uint8Array> {
  return stateOf(model).withSource((source) =>
    collectChunks(source, layOutRewrite(rewrite, 'tensors', new WireReader(source))),
  );
}

/** The files a session must find: checked to exist and to lie in the model's folder. Returns that folder if there are any. */
function externalFolder(model: OnnxModel, { cut }: Rewrite): string | undefined {
  const tensors = externalTensors(cut);
  const { folder } = stateOf(model);
  if (tensors.length === 0) return undefined;
  if (folder === undefined) {
    const [first] = tensors;
    const reason = 'the model was opened from bytes, so its folder is unknown';
    throw new TapirError(
      'EXTERNAL_DATA_UNSAFE',
      `the weights of "${first!.tensor}" lie in "${first!.location}", but ${reason}; open it by path`,
      { details: { location: first!.location, tensor: first!.tensor, reason } },
    );
  }
  checkExternalFiles(tensors, folder);
  return folder;
}

/** Opens a rewritten model on the CPU, with the values of the file bit for bit: to ask for types, to compare. */
export async function openExactLane(
  model: OnnxModel,
  rewrite: Rewrite,
  { graphOptimizationLevel = 'disabled' }: { readonly graphOptimizationLevel?: 'disabled' | 'all' } = {},
): Promise<Lane> {
  const device = readDevice('device', 'cpu');
  const session = readSessionOptions({ graphOptimizationLevel });
  return openLane(device, async () => ({ ...(await describeModel(model, rewrite)), device, session }));
}
