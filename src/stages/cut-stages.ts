/** Cuts a model into the stages that the graph was divided into. */
import type { StagePart } from './graph/stages.js';
import { cutModel } from '../model/prune/cut-model.js';
import type { CheckedSizes } from '../model/open/input-sizes.js';
import type { ModelAnswers } from '../model/open/model-answers.js';
import type { OnnxModel } from '../model/open/open-model.js';
import type { PrunedModel } from '../model/prune/pruned-model.js';
import { ModelOracle } from '../model/oracle/model-oracle.js';

/** Cuts the model into its stages. The types of what crosses are inferred once, for all. */
export async function cutStages(
  model: OnnxModel,
  parts: readonly StagePart[],
  inputSizes: CheckedSizes,
): Promise<PrunedModel[]> {
  await using oracle = new ModelOracle(model);
  const crossing = parts.flatMap(({ outputs }) => outputs);
  const types = await oracle.inferTypes(crossing, inputSizes);
  const answers: ModelAnswers = {
    inferTypes: () => Promise.resolve(types),
    openBatch: (rewrite) => Promise.resolve(rewrite),
    measureTokens: () => Promise.resolve(undefined),
  };
  const models: PrunedModel[] = [];
  for (const { inputs, outputs } of parts) {
    const request = outputs.map(({ name }) => [`tensor:${name}`, name] as const);
    const given = {
      inputs: inputs.map(({ name }) => `tensor:${name}`),
      keepTensorNames: true,
      fillTypes: true,
    };
    // oxlint-disable-next-line no-await-in-loop -- each reads the source
    models.push(await cutModel(model, request, given, answers));
  }
  return models;
}
