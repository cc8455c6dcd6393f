/** Loading a state dict into a model: the same graph with other weights. */
import { checkText, invalidOption, show, type Options } from '../../base/checks.js';
import { checkedBy, optional, readOptions, unchecked, type Fields } from '../../base/options.js';
import { modelInternals } from '../../run/model/open/model-state.js';
import { deriveModel, readModel, type ModelSource, type OnnxModel } from '../../run/model/open/open-model.js';
import { Loading, type LoadReport } from './match/loading.js';
import type { StateValues } from './folding/state-value.js';
import { dropPrefix, stateValues, wrapperPrefix } from './dicts/state-values.js';
import type { StateSource } from './dicts/write-state-dict.js';

/** Options of {@link loadStateDict}. */
export interface LoadStateOptions {
  /**
   * Refuse a state dict that lacks keys of the model, or has others. `'proven'` also refuses keys that only elimination tells
   * (origin `assumed`).
   * @default true
   */
  readonly strict: boolean | 'proven';
  /**
   * What all keys begin with, such as `model.`; other keys are left out. The keys of `reference` may begin with it or not. `module.`,
   * which DataParallel adds, needs not be stated.
   * @default undefined
   */
  readonly prefix: string | undefined;
  /**
   * The epsilon of folded norms, where neither the file (dynamo's exporter writes it) nor `reference` proves it. Without it, tapir knows
   * the epsilon of torchvision's networks, and takes that of norms of the same part of the network that were not folded.
   * @default undefined
   */
  readonly epsilon: number | undefined;
  /**
   * The state dict of the model's present weights. It proves by value which norm was folded into which layer, and with which epsilon,
   * and which keys have no tensor in the file.
   * @default undefined
   */
  readonly reference: StateSource | undefined;
}

export const LOAD_FIELDS: Fields<LoadStateOptions> = {
  strict: checkedBy(checkStrict, true),
  prefix: optional(checkText, 'what all keys begin with, such as "model."'),
  epsilon: {
    ...optional(
      checkEpsilon,
      'of folded norms, if neither the file nor --reference proves it (torch’s default is 1e-5)',
    ),
    reads: 'number',
  },
  reference: unchecked<StateSource | undefined>(undefined),
};

/**
 * Loads a state dict into a model: each parameter gets the values of its key. A BatchNorm that the exporter folded into a layer is folded
 * again, in float64. Transposed weights are transposed. A tensor that the exporter shared between equal parameters is split if their values
 * differ now. A bias that it dropped because it was zero comes back.
 *
 * @param model - A model, or where to open one. It does not change.
 * @param state - What {@link readStateDict} gives, or a `Map` of tensors by name. float16, bfloat16 and float64 values are converted.
 * @param given - See {@link LoadStateOptions}.
 * @returns A new model, which reads all other bytes from the file of the given one, and a report. Save it with `model.save(path)`.
 * @throws {@link TapirError} `STATE_MISMATCH` if keys are missing or unexpected (unless `strict` is false), if dims or dtypes do not fit,
 * or if no key matches; `STATE_AMBIGUOUS` if the file does not show what a key belongs to; `STATE_INVALID`; `MODEL_CHANGED`;
 * `OPTION_INVALID`; those of {@link openModel}.
 *
 * @remarks A TorchScript file does not state the epsilon of folded norms. Layers whose weights the file has already keep their bytes. For
 * others the epsilon is proven by `reference`, or known from `epsilon`, from a norm beside them that was not folded, or from torchvision's
 * network with the same keys and dims. Otherwise the load is refused.
 *
 * @example
 * ```ts
 * import { openModel } from 'onnx-tapir';
 * import { loadStateDict, readStateDict } from 'onnx-tapir/parameters';
 *
 * const model = await openModel('resnet50.onnx');
 * const { model: tuned, report } = await loadStateDict(model, await readStateDict('tuned.pth'));
 * console.log(report.entries.length); // 267
 * await tuned.save('tuned.onnx');
 * ```
 */
export async function loadStateDict(
  model: OnnxModel | ModelSource,
  state: StateSource,
  given: Options<LoadStateOptions> = {},
): Promise<{ readonly model: OnnxModel; readonly report: LoadReport }> {
  const options = readOptions(LOAD_FIELDS, given, 'loadStateDict');
  const { strict, prefix, epsilon } = options;
  const opened = readModel(model);
  const notes: string[] = [];
  const values = readState(state, prefix, notes);
  const reference = options.reference && readReference(options.reference, prefix);
  const loading = new Loading(modelInternals.of(opened), { state: values, reference, epsilon, notes });
  const { chunks, report } = await loading.run(strict);
  return { model: chunks ? await deriveModel(opened, chunks) : opened, report };
}

function checkStrict(option: string, value: unknown): boolean | 'proven' {
  if (typeof value === 'boolean' || value === 'proven') return value;
  throw invalidOption(option, 'true, false or "proven"', value);
}

/** Checks the epsilon of folded norms. Throws `OPTION_INVALID`. */
export function checkEpsilon(option: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value < 1) return value;
  throw invalidOption(option, 'a number between 0 and 1', value);
}

/** The tensors of a state dict by the names that the model has; the notes say what was removed. Throws `OPTION_INVALID`. */
export function readState(state: StateSource, prefix: string | undefined, notes: string[] = []): StateValues {
  const values = valuesOf('state', state);
  const start = prefix ?? wrapperPrefix(values.keys());
  if (start === '') return values;
  const kept = dropPrefix(values, start);
  notes.push(`"${start}" was removed from ${kept.size} keys`);
  if (kept.size < values.size) notes.push(`${values.size - kept.size} keys do not begin with "${start}"`);
  return kept;
}

/** The same for the state dict of the present weights. It may have been saved without the prefix of the state dict. */
export function readReference(reference: StateSource, prefix: string | undefined): StateValues {
  const values = valuesOf('reference', reference);
  const kept = dropPrefix(values, prefix ?? '');
  return kept.size > 0 ? kept : dropPrefix(values, wrapperPrefix(values.keys()));
}

function valuesOf(option: string, state: StateSource): StateValues {
  if (!(state instanceof Map))
    throw invalidOption(option, 'what readStateDict gives, or a Map of tensors', show(state));
  return stateValues(state);
}
