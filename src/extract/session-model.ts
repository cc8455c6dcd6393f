/** A rewrite as a session opens it: its bytes, and the folder of its external weights. */
import { realpathSync } from 'node:fs';
import { TapirError } from '../errors.js';
import { collectChunks } from '../onnx/emit.js';
import { findExternalFiles, type ExternalFiles } from '../onnx/external-data.js';
import { relocateWeights } from '../onnx/move-weights.js';
import { WireReader } from '../onnx/wire.js';
import { externalTensors } from '../rewrite/describe.js';
import { layOutRewrite } from '../rewrite/lay-out.js';
import type { Rewrite } from '../rewrite/rewrite.js';
import { readDevice } from '../runtime/device.js';
import { LANE_DEFAULTS } from '../runtime/lane-options.js';
import type { LaneDescription } from '../runtime/protocol.js';
import { openReplica, type Replica } from '../runtime/replica.js';
import { readSessionOptions } from '../runtime/session-options.js';
import { stateOf, type OnnxModel } from './open-model.js';

/** What a lane needs to open a rewritten model, without device and session options. */
export async function describeModel(
  model: OnnxModel,
  rewrite: Rewrite,
): Promise<Pick<LaneDescription, 'model' | 'externalFolder'>> {
  const { folder, withSource } = stateOf(model);
  const files = findWeights(model, rewrite);
  return withSource((source) => {
    const reader = new WireReader(source);
    // onnxruntime refuses links out of the folder it is given, so it is given the folder in which the files really lie.
    const isElsewhere = files && files.folder !== realpathSync(folder!);
    const weights = isElsewhere ? relocateWeights(reader, externalTensors(rewrite.cut), files) : undefined;
    return {
      model: collectChunks(source, layOutRewrite(rewrite, 'tensors', reader, weights)),
      externalFolder: files && (isElsewhere ? files.folder : folder),
    };
  });
}

/** The files with external weights: checked to exist and to lie in the model's folder; undefined if there are none. */
export function findWeights(model: OnnxModel, { cut }: Rewrite): ExternalFiles | undefined {
  const tensors = externalTensors(cut);
  const [first] = tensors;
  const { folder } = stateOf(model);
  if (!first) return undefined;
  if (folder !== undefined) return findExternalFiles(tensors, folder);
  const reason = 'the model was opened from bytes, so its folder is unknown';
  throw new TapirError(
    'EXTERNAL_DATA_UNSAFE',
    `the weights of "${first.name}" lie in "${first.location}", but ${reason}; open it by path`,
    { details: { location: first.location, tensor: first.name, reason } },
  );
}

/** Opens a rewritten model on the CPU, with the values of the file bit for bit: to ask for types, to compare. */
export async function openExact(
  model: OnnxModel,
  rewrite: Rewrite,
  { graphOptimizationLevel = 'disabled' }: { readonly graphOptimizationLevel?: 'disabled' | 'all' } = {},
): Promise<Replica> {
  const device = readDevice('device', 'cpu');
  const session = readSessionOptions({ graphOptimizationLevel });
  return openReplica({ device, lane: LANE_DEFAULTS, sessions: 1, onLaneDeath: 'remove' }, async () => ({
    ...(await describeModel(model, rewrite)),
    device,
    session,
  }));
}
