/** Verifies that a pruned model gives the values of the full graph, on the same made-up inputs. */
import { invalidOption, type Options } from '../../../base/checks.js';
import { isTapirError, reasonOf, TapirError } from '../../../base/errors.js';
import { integer, oneOf, readOptions, unchecked, type Fields } from '../../../base/options.js';
import { tensorType } from '../../../onnx/graph/graph.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { runBatch } from '../../runtime/run-batch.js';
import { compareTensors } from '../../../onnx/tensor/compare-tensors.js';
import type { NamedTensor, Tensor } from '../../../onnx/tensor/tensor.js';
import { checkInputSizes, readInputSizes, type CheckedSizes, type InputSizes } from '../open/input-sizes.js';
import { describeInputs } from '../open/value-info.js';
import type { Prepared } from '../prune/prepared.js';
import { completeModel, prunedInternals, type PrunedModel, type PrunedState } from '../prune/pruned-model.js';
import { prepareWhole } from './prepare.js';
import { photoCases } from './photo-cases.js';
import { runMadeUp } from './run-made-up.js';
import { SessionHolder, type SessionForm } from './session-holder.js';

/** Options of {@link verifyModel}. */
export interface VerifyOptions {
  /**
   * Seed of the made-up inputs, an integer from 0 to 2^31 − 1.
   * @default 0
   */
  readonly seed: number;
  /**
   * Rows of inputs whose first axis is open, from 1 to 1024. A fixed batch is run once.
   * @default 2
   */
  readonly rows: number;
  /**
   * Sizes of other open axes: one size for height and width of images, or sizes by the symbolic name of an axis and whole shapes by
   * the name of an input. Sizes that you leave out are searched for, from 224 for images and 8 for all other axes.
   * @default the `inputSizes` that the model was pruned with
   */
  readonly inputSizes: InputSizes | undefined;
  /**
   * How far ONNX Runtime optimises both graphs for the comparison. With `disabled`, a pruned model equals the full one bit for
   * bit; with `all`, fusions round differently. The written model is also opened and run with `all`.
   * @default 'disabled'
   */
  readonly graphOptimizationLevel: 'disabled' | 'all';
}

export const VERIFY_FIELDS: Fields<VerifyOptions> = {
  seed: integer(0, 2 ** 31 - 1, 0),
  rows: integer(1, 1024, 2),
  inputSizes: unchecked<InputSizes | undefined>(undefined),
  graphOptimizationLevel: oneOf(['disabled', 'all'], 'disabled'),
};

/** An input as it was fed. */
export interface FedInput {
  readonly name: string;
  readonly dims: readonly number[];
  /** The axes whose size the file leaves open and you did not give; the number of rows is not among them. */
  readonly madeUp: readonly number[];
}

/** The comparison of one output. */
export interface VerifiedOutput {
  /** The output key. */
  readonly name: string;
  readonly dtype: string;
  readonly dims: readonly number[];
  /** Whether all elements are the same, bit for bit. */
  readonly isEqual: boolean;
  /** The largest absolute difference; Infinity if dtype or dims differ. */
  readonly maxDifference: number;
  /** The largest absolute difference, divided by the largest magnitude of the full graph's output. */
  readonly maxRelative: number;
}

/** Checked options of {@link verifyModel}. */
type Comparison = Omit<VerifyOptions, 'inputSizes'> & { readonly inputSizes: CheckedSizes };

/** Largest relative difference of a right cut: a dynamic batch may sum in another order. */
const TOLERANCE = 1e-4;
/**
 * The same for half precision: two steps between neighbouring numbers. ONNX Runtime's CPU computes such tensors in float32, and whether
 * it rounds one to half precision depends on the nodes that read it.
 */
const HALF_TOLERANCE: ReadonlyMap<number | undefined, number> = new Map([
  [ELEMENT_TYPE.float16, 2 ** -9],
  [ELEMENT_TYPE.bfloat16, 2 ** -6],
]);

/**
 * The same for a model that was lowered to float16: each layer rounds, and the errors of all of them reach the outputs. An overflow
 * or a wrong cut is far outside (docs/decisions/034-half-precision.md).
 */
const LOWERED_TOLERANCE = 2 ** -5;
/** The same for int8, whose steps are 1/127 of the largest value of a row or column (docs/decisions/040-int8.md). */
const INT8_TOLERANCE = 2 ** -2;
/** The same for fixed scales: made-up inputs leave the ranges that photos have. */
const STATIC_TOLERANCE = 2 ** -1;

/** What {@link verifyModel} found. */
export interface VerifyReport {
  readonly seed: number;
  /** The number of rows that were fed. It is 1 if the graph takes no more. */
  readonly rows: number;
  /**
   * Why the asked number of rows does not run, if the file leaves the batch open and the graph takes one row only; else null. The option
   * `batch: 'dynamic'` of {@link pruneModel} rewrites such a graph.
   */
  readonly rowsRefused: string | null;
  /** What the full graph was fed. */
  readonly inputs: readonly FedInput[];
  /** Whether every output is the same, bit for bit. */
  readonly isEqual: boolean;
  /** The largest relative difference of any output. */
  readonly maxRelative: number;
  /**
   * What `maxRelative` may be. It is 1e-4, or two rounding steps if the model computes in half precision. It is 1/32 for what
   * {@link lowerPrecision} made of a float32 model; for int8 it is 1/4, and 1/2 with fixed scales. Larger means a wrong cut.
   */
  readonly tolerance: number;
  /**
   * The largest relative difference of any output when ONNX Runtime optimises the written model as it does by default: fusions
   * round differently.
   */
  readonly maxRelativeOptimized: number;
  readonly outputs: readonly VerifiedOutput[];
}

/**
 * Runs a pruned model and the full graph that it was cut from on the same seeded inputs, on the CPU, and compares the outputs.
 * The pruned model is run from the bytes that `save` writes: once without optimisation for the comparison, and once optimised as
 * ONNX Runtime does by default. Added parts (pooling, an image input) are added to the full graph as well. A fixed
 * batch that was made dynamic is compared with runs of that batch. Where the file leaves the batch open and only one row runs, the report
 * says so.
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
  await using sessions = new SessionHolder(prepared.model);
  return await comparePruned(await completeModel(pruned), { ...options, inputSizes }, sessions);
}

async function comparePruned(
  part: PrunedState,
  { seed, rows: asked, inputSizes, graphOptimizationLevel: level }: Comparison,
  sessions: SessionHolder,
): Promise<VerifyReport> {
  const { photo } = part.request;
  // The full graph gets the product's own pixels.
  const whole = prepareWhole(photo ? { ...part, request: { ...part.request, photo: undefined } } : part);
  // A dynamic batch runs at once; the full graph takes the same rows batch by batch.
  const runs = part.rewrite.batch?.mode === 'dynamic' ? asked : 1;
  const rows = photo?.hasBatch === false ? 1 : asked;
  const replica = await sessions.open({ rewrite: whole.rewrite, graphOptimizationLevel: level });
  const fetches = whole.rewrite.outputs.map(({ tensor }) => tensor);
  const madeUp = { rewrite: whole.rewrite, given: inputSizes, seed, rows, runs };
  const inputs = describeInputs(whole.rewrite);
  const run = await runMadeUp(madeUp, (made) => runBatch(replica, inputs, made, fetches));
  const { result, feeds, fed, refused } = run;
  const cases = photo ? photoCases(photo, feeds, seed) : [{ feeds, photos: undefined }];
  const expected: Tensor[][] = [];
  for (const { feeds: made, photos } of cases)
    expected.push(photos ? await runBatch(replica, inputs, made, fetches) : result);
  const partFeeds = cases.map(({ feeds: made, photos }, i) =>
    feedsOf(part, whole, photos ? [...made, photos] : made, expected[i]!),
  );
  const written: SessionForm = { rewrite: part.rewrite, naming: part.request.naming };
  const actual = await runIn(part, partFeeds, { ...written, graphOptimizationLevel: level }, sessions);
  const optimized = level === 'all' ? actual : await runOptimized(part, partFeeds, written, sessions);
  const outputs = actual.map((tensors, one) =>
    part.rewrite.outputs.map(({ key }, i): VerifiedOutput => {
      const { dtype, dims } = tensors[i]!;
      return { name: key, dtype, dims, ...compareTensors(tensors[i]!, expected[one]![i]!) };
    }),
  );
  const worst = outputs[0]!.map((first, i) =>
    outputs
      .map((one) => one[i]!)
      .reduce((most, one) => (one.maxDifference > most.maxDifference ? one : most), first),
  );
  return {
    seed,
    rows: feeds[0]?.dims[0] ?? rows,
    rowsRefused: refused ?? null,
    inputs: feeds.map(({ name, dims }, i) => ({ name, dims, madeUp: fed[i]!.madeUp })),
    isEqual: worst.every((output) => output.isEqual),
    maxRelative: Math.max(...worst.map((output) => output.maxRelative)),
    tolerance: toleranceOf(part),
    maxRelativeOptimized: Math.max(
      ...optimized.flatMap((tensors, one) =>
        tensors.map((tensor, i) => compareTensors(tensor, expected[one]![i]!).maxRelative),
      ),
    ),
    outputs: worst,
  };
}

/** The tolerance for the precision that a model was lowered to; else for the coarsest type among its tensors, its outputs included. */
function toleranceOf({ rewrite, typeOf, lowered }: PrunedState): number {
  if (lowered)
    return lowered.isPlain
      ? STATIC_TOLERANCE
      : lowered.precision === 'int8'
        ? INT8_TOLERANCE
        : LOWERED_TOLERANCE;
  const types = new Set([
    ...[...rewrite.cut.values].map((value) => tensorType(value)?.elemType),
    ...rewrite.outputs.flatMap(({ type, value }) => [type?.elemType, typeOf(value)?.elemType]),
  ]);
  return Math.max(TOLERANCE, ...[...types].map((type) => HALF_TOLERANCE.get(type) ?? 0));
}

/** Runs a model on feeds, one run after the other; outputs come in the order of the request. */
async function runIn(
  { rewrite }: Prepared,
  feeds: readonly (readonly NamedTensor[])[],
  form: SessionForm,
  sessions: SessionHolder,
): Promise<Tensor[][]> {
  const replica = await sessions.open(form);
  const fetches = rewrite.outputs.map(({ key, tensor }) => (form.naming === 'keys' ? key : tensor));
  const runs: Tensor[][] = [];
  for (const run of feeds) runs.push(await runBatch(replica, describeInputs(rewrite), run, fetches));
  return runs;
}

/** Runs the written model with the default optimisation, which can fail by itself (docs/decisions/022-output-names.md). */
async function runOptimized(
  part: Prepared,
  feeds: readonly (readonly NamedTensor[])[],
  form: SessionForm,
  sessions: SessionHolder,
): Promise<Tensor[][]> {
  try {
    return await runIn(part, feeds, { ...form, graphOptimizationLevel: 'all' }, sessions);
  } catch (error) {
    if (!isTapirError(error, 'SESSION_FAILED')) throw error;
    const advice =
      form.naming === 'keys'
        ? '; prune it with keepTensorNames: true (tapir: --set keepTensorNames=true)'
        : '';
    throw new TapirError(
      'SESSION_FAILED',
      `the pruned model opens without optimisation, but not as ONNX Runtime optimises it by default: ${reasonOf(error)}${advice}`,
      { details: error.details, cause: error },
    );
  }
}

/** The feeds of the pruned model: those of the full graph, and the values of the tensors at which the graph was cut. */
function feedsOf(
  part: Prepared,
  whole: Prepared,
  feeds: readonly NamedTensor[],
  computed: readonly Tensor[],
): NamedTensor[] {
  const known = new Map<string, NamedTensor>([
    ...whole.rewrite.outputs.map(({ value }, i): [string, NamedTensor] => [
      value.name,
      { name: value.name, ...computed[i]! },
    ]),
    ...feeds.map((feed): [string, NamedTensor] => [feed.name, feed]),
  ]);
  const image = part.request.image && part.rewrite.inputs.at(-1);
  if (image) known.set(image.name, { ...known.get(whole.rewrite.inputs.at(-1)!.name)!, name: image.name });
  return describeInputs(part.rewrite).map(({ name }) => known.get(name)!);
}
