/** Writing a pruned model to a file, with the external weights that it needs. */
import type { Options } from '../../../base/checks.js';
import { externalTensors } from '../../../onnx/graph/rewrite/describe.js';
import { layOutRewrite } from '../../../onnx/graph/rewrite/lay-out.js';
import type { PrunePlan } from '../../../onnx/graph/rewrite/plan.js';
import { modelInternals } from '../open/model-state.js';
import {
  layOutInlined,
  readSave,
  writeSaved,
  type Saved,
  type SaveOptions,
  type Saving,
} from '../open/save-whole.js';
import type { LaidOut } from './prepared.js';

/** Saves a pruned model; see {@link PrunedModel.save}. */
export async function saveModel(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  await writeSaved(savedOf(pruned), readPrunedSave(pruned, path, plan, given));
}

/** Refuses what {@link saveModel} refuses before it writes. Throws as {@link PrunedModel.save}. */
export async function checkSave(
  pruned: LaidOut,
  path: string,
  plan: PrunePlan,
  given: Options<SaveOptions>,
): Promise<void> {
  const { target, weights, isMoved } = readPrunedSave(pruned, path, plan, given);
  await modelInternals.of(pruned.model).withSource((source) => {
    if (isMoved && weights === 'inline') layOutInlined(savedOf(pruned), source, target);
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

function savedOf({ model, rewrite, request, chunks }: LaidOut): Saved {
  return {
    model: modelInternals.of(model),
    tensors: externalTensors(rewrite),
    chunks,
    layOut: (reader, weights) => layOutRewrite(rewrite, request.naming, reader, weights),
  };
}
