/** Writing a pruned model to a file, with the external weights that it needs. */
import { basename } from 'node:path';
import type { Options } from '../base/checks.js';
import { externalTensors } from '../graph/rewrite/describe.js';
import { layOutRewrite } from '../graph/rewrite/lay-out.js';
import type { PrunePlan } from '../graph/rewrite/plan.js';
import { writeChunks } from '../onnx/emit.js';
import { inlineWeights, repackWeights } from '../onnx/move-weights.js';
import type { ByteSource } from '../onnx/source.js';
import { WireReader } from '../onnx/wire.js';
import { modelInternals } from './model-state.js';
import type { LaidOut } from './prepare.js';
import { checkSize, dataPathOf, readSave, writeBoth, type SaveOptions } from './save-whole.js';
import { findWeights } from './session-model.js';

/** Saves a pruned model; see {@link PrunedModel.save}. */
export async function saveModel(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  const { chunks } = pruned;
  const state = modelInternals.of(pruned.model);
  const { externalFiles } = plan.kept;
  const allFiles = [...externalFiles, ...plan.dropped.externalFiles];
  const { target, weights, overwrite, isMoved } = readSave(state, path, externalFiles, allFiles, given);
  await state.withSource((source) => {
    if (!isMoved) return writeChunks(source, chunks, target);
    return weights === 'inline'
      ? saveInlined(source, pruned, target)
      : saveRepacked(source, pruned, target, overwrite);
  });
}

/** Writes a model with its external weights inside. */
async function saveInlined(
  source: ByteSource,
  { model, rewrite, request }: LaidOut,
  path: string,
): Promise<void> {
  const reader = new WireReader(source);
  const weights = inlineWeights(reader, externalTensors(rewrite), findWeights(model, rewrite)!);
  const chunks = layOutRewrite(rewrite, request.naming, reader, weights);
  checkSize(chunks, path);
  await writeChunks(source, chunks, path);
}

/** Writes a model, and its external weights into one file beside it. The weights come first, so that the model never lacks them. */
async function saveRepacked(
  source: ByteSource,
  { model, rewrite, request }: LaidOut,
  path: string,
  overwrite: boolean,
): Promise<void> {
  const reader = new WireReader(source);
  const tensors = externalTensors(rewrite);
  const moved = repackWeights(reader, tensors, findWeights(model, rewrite)!, basename(dataPathOf(path)));
  const chunks = layOutRewrite(rewrite, request.naming, reader, moved.weights);
  await writeBoth(source, path, moved.file, chunks, overwrite);
}
