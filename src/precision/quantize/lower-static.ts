/** A model → the same one in 8 bits with fixed scales. */
import { describeNode } from '../../graph/rewrite/prune.js';
import { modelInternals } from '../../model/open/model-state.js';
import { deriveModel, type OnnxModel } from '../../model/open/open-model.js';
import { readKept, wholeRewrite, type LoweredModel } from '../lower-precision.js';
import { createPruned, prunedInternals, type PrunedModel } from '../../model/prune/pruned-model.js';
import { measureSpeeds } from './measure-speeds.js';
import { quantizeStatic, type StaticLowered, type StaticSetup } from './quantize-static.js';
import type { StaticReport } from './static-report.js';

/** A model with fixed scales, and its report. */
export interface StaticModel extends LoweredModel<OnnxModel | PrunedModel> {
  readonly report: StaticReport;
}

/** Options with what stays in float32 as names. Throws as {@link quantizeStatic}. */
export async function lowerStatic(
  model: OnnxModel | PrunedModel,
  { keep, ...setup }: Omit<StaticSetup, 'keep'> & { readonly keep: readonly string[] },
): Promise<StaticModel> {
  if (prunedInternals.has(model)) {
    const exact = prunedInternals.of(model).lowered?.exact ?? model;
    const laidOut = prunedInternals.of(exact);
    const { model: source, rewrite, request } = laidOut;
    const kept = readKept(keep, rewrite.cut.graph, describeNode);
    const made = await quantizeStatic(source, rewrite, request.naming, { ...setup, keep: kept });
    const { rewrite: quantised, chunks } = made;
    const lowered = { precision: 'int8', exact, isPlain: true } as const;
    return withSpeeds(exact, createPruned({ ...laidOut, rewrite: quantised, chunks, lowered }), made);
  }
  const kept = readKept(keep, modelInternals.of(model).graph, describeNode);
  const made = await quantizeStatic(model, wholeRewrite(model), 'tensors', { ...setup, keep: kept });
  return withSpeeds(model, await deriveModel(model, made.chunks), made);
}

async function withSpeeds(
  before: OnnxModel | PrunedModel,
  model: OnnxModel | PrunedModel,
  { report, sample }: StaticLowered,
): Promise<StaticModel> {
  return { model, report: { ...report, speeds: await measureSpeeds(before, model, sample) } };
}
