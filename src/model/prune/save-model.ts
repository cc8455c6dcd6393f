/** Writing a pruned model to a file, with the external weights that it needs. */
import { basename } from 'node:path';
import type { Options } from '../../base/checks.js';
import { externalTensors } from '../../graph/rewrite/describe.js';
import { layOutRewrite } from '../../graph/rewrite/lay-out.js';
import type { PrunePlan } from '../../graph/rewrite/plan.js';
import type { Chunk } from '../../onnx/wire/chunk.js';
import { writeChunks } from '../../onnx/emit.js';
import { findExternalFiles } from '../../onnx/external-data.js';
import { inlineWeights, repackWeights } from '../../onnx/move-weights.js';
import type { ByteSource } from '../../onnx/wire/source.js';
import { WireReader } from '../../onnx/wire/wire.js';
import { modelInternals } from '../open/model-state.js';
import type { LaidOut } from './prepared.js';
import {
  checkSize,
  dataPathOf,
  readSave,
  writeBoth,
  type SaveOptions,
  type Saving,
} from '../open/save-whole.js';

/** Saves a pruned model; see {@link PrunedModel.save}. */
export async function saveModel(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  const { target, weights, overwrite, isMoved } = readPrunedSave(pruned, path, plan, given);
  await modelInternals.of(pruned.model).withSource((source) => {
    if (!isMoved) return writeChunks(source, pruned.chunks, target);
    return weights === 'inline'
      ? writeChunks(source, layOutInlined(source, pruned, target), target)
      : saveRepacked(source, pruned, target, overwrite);
  });
}

/**
 * Refuses what {@link saveModel} refuses before it writes.
 *
 * @throws {@link TapirError} as {@link PrunedModel.save}.
 */
export async function checkSave(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  const { target, weights, isMoved } = readPrunedSave(pruned, path, plan, given);
  await modelInternals.of(pruned.model).withSource((source) => {
    if (isMoved && weights === 'inline') layOutInlined(source, pruned, target);
  });
}

function readPrunedSave(
  { model }: LaidOut,
  path: string,
  { kept, dropped }: PrunePlan,
  given: Options<SaveOptions>,
): Saving {
  const allFiles = [...kept.externalFiles, ...dropped.externalFiles];
  return readSave(modelInternals.of(model), path, kept.externalFiles, allFiles, given);
}

/** A model with its external weights inside. */
function layOutInlined(source: ByteSource, { model, rewrite, request }: LaidOut, path: string): Chunk[] {
  const reader = new WireReader(source);
  const tensors = externalTensors(rewrite);
  const files = findExternalFiles(tensors, modelInternals.of(model).folder)!;
  const weights = inlineWeights(reader, tensors, files);
  const chunks = layOutRewrite(rewrite, request.naming, reader, weights);
  checkSize(chunks, path);
  return chunks;
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
  const files = findExternalFiles(tensors, modelInternals.of(model).folder)!;
  const moved = repackWeights(reader, tensors, files, basename(dataPathOf(path)));
  const chunks = layOutRewrite(rewrite, request.naming, reader, moved.weights);
  await writeBoth(source, path, moved.file, chunks, overwrite);
}
