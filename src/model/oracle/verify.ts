/** Verifies that a pruned model gives the values of the full graph. */
import { invalidOption, type Options } from '../../base/checks.js';
import { integer, oneOf, readOptions, unchecked, type Fields } from '../../base/options.js';
import { checkInputSizes, readInputSizes, type InputSizes } from '../open/input-sizes.js';
import { prunedInternals, type PrunedModel } from '../prune/pruned-model.js';
import type { VerifyOptions, VerifyReport } from './compare-pruned.js';
import { ModelOracle } from './model-oracle.js';

export const VERIFY_FIELDS: Fields<VerifyOptions> = {
  seed: integer(0, 2 ** 31 - 1, 0),
  rows: integer(1, 1024, 2),
  inputSizes: unchecked<InputSizes | undefined>(undefined),
  graphOptimizationLevel: oneOf(['disabled', 'all'], 'disabled'),
};

/**
 * Runs a pruned model and the full graph that it was cut from on the same seeded inputs, on the CPU, and compares the outputs.
 * The pruned model is run from the bytes that `save` writes: once without optimisation for the comparison, and once optimised as
 * ONNX Runtime does by default. Added parts (pooling, an image input) are added to the full graph as well. A fixed
 * batch that was made dynamic is compared with runs of that batch.
 *
 * @param pruned - From {@link pruneModel}, or the `model` of an extractor.
 * @param given - See {@link VerifyOptions}.
 * @returns The differences, by output.
 * @throws {@link TapirError} `SESSION_FAILED` if one of the two cannot be opened; `RUN_FAILED` if it runs on none of the made-up
 * inputs that were tried; `INPUT_MISMATCH` if no values can be made up for an input; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { pruneModel, verifyModel } from 'onnx-tapir';
 *
 * const { isEqual, outputs } = await verifyModel(await pruneModel('resnet50.onnx', { layer4: 'features' }));
 * console.log(isEqual, outputs[0]?.maxDifference); // true 0
 * ```
 */
export async function verifyModel(
  pruned: PrunedModel,
  given: Options<VerifyOptions> = {},
): Promise<VerifyReport> {
  const prepared = prunedInternals.of(pruned);
  if (prepared.isGradient)
    throw invalidOption('pruned', 'a part of its source, not its gradients', 'gradients');
  const options = readOptions(VERIFY_FIELDS, given, 'verifyModel');
  const inputSizes =
    options.inputSizes === undefined ? prepared.request.inputSizes : readInputSizes(options.inputSizes);
  checkInputSizes(inputSizes, prepared.model.inputs);
  await using oracle = new ModelOracle(prepared.model);
  return await oracle.compare(prepared, { ...options, inputSizes });
}
