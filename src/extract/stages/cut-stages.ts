/** Cuts a model into the stages that the graph was divided into. */
import { readOptions } from '../../base/options.js';
import type { StagePart } from './graph/stages.js';
import type { CheckedSizes } from '../../run/model/open/input-sizes.js';
import type { OnnxModel } from '../../run/model/open/open-model.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import { inferTypes } from '../../run/model/oracle/infer-types.js';
import { cutModel, PRUNE_FIELDS } from '../../run/model/oracle/prune-model.js';
import { SessionHolder } from '../../run/model/oracle/session-holder.js';

/** Cuts the model into its stages. The types of what crosses are inferred once, for all. */
export async function cutStages(
  model: OnnxModel,
  parts: readonly StagePart[],
  inputSizes: CheckedSizes,
): Promise<PrunedModel[]> {
  await using sessions = new SessionHolder(model);
  const crossing = parts.flatMap(({ outputs }) => outputs);
  const types = await inferTypes(crossing, inputSizes, sessions);
  const models: PrunedModel[] = [];
  for (const { inputs, outputs } of parts) {
    const request = outputs.map(({ name }) => [`tensor:${name}`, name] as const);
    const given = { inputs: inputs.map(({ name }) => `tensor:${name}`), keepTensorNames: true };
    const options = readOptions(PRUNE_FIELDS, given, 'pruneModel');
    // oxlint-disable-next-line no-await-in-loop -- each reads the source
    models.push(await cutModel(request, options, sessions, types));
  }
  return models;
}
