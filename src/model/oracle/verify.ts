/** Whether a pruned model gives the full graph's values: both are run on the same made-up inputs. */
import { checkInteger, checkOneOf, withDefaults, type Options } from '../../base/checks.js';
import type { Replica } from '../../runtime/replica.js';
import { compareTensors } from './compare.js';
import { prepareWhole, type Prepared } from '../prepare.js';
import { preparedOf, type PrunedModel } from '../prune-model.js';
import { runBatch } from '../../runtime/run-batch.js';
import type { NamedTensor } from '../../tensor/tensor.js';
import { seededFeeds } from './seeded-feeds.js';
import { openExact } from '../session-model.js';
import { describeInputs } from '../value-info.js';

/** Options of {@link verifyModel}. */
export interface VerifyOptions {
  /**
   * Seed of the made-up inputs, an integer from 0 to 2^31 − 1.
   * @default 0
   */
  readonly seed: number;
  /**
   * Rows of the inputs whose first axis is open, from 1 to 1024; a fixed batch is run once.
   * @default 2
   */
  readonly rows: number;
  /**
   * Sizes for other open axes, by symbolic name; otherwise 224 for the sides of an image and 8 for the rest.
   * @default {}
   */
  readonly sizes: Readonly<Record<string, number>>;
  /**
   * How far ONNX Runtime rewrites the graphs while loading. With `disabled` a pruned model equals the full one bit for bit;
   * with `all`, fusions round differently.
   * @default 'disabled'
   */
  readonly graphOptimizationLevel: 'disabled' | 'all';
}

export const VERIFY_DEFAULTS: VerifyOptions = {
  seed: 0,
  rows: 2,
  sizes: {},
  graphOptimizationLevel: 'disabled',
};

/** An output, compared. */
export interface VerifiedOutput {
  /** The output key. */
  readonly name: string;
  readonly dtype: string;
  readonly dims: readonly number[];
  /** Whether all elements are the same, bit for bit. */
  readonly isEqual: boolean;
  /** The largest absolute difference; Infinity if dtype or dims differ. */
  readonly maxDifference: number;
  /** The same, divided by the largest magnitude of the full graph's output. */
  readonly maxRelative: number;
}

/** What {@link verifyModel} found. */
export interface VerifyReport {
  readonly seed: number;
  /** Rows that were fed. */
  readonly rows: number;
  /** Whether every output is the same, bit for bit. */
  readonly isEqual: boolean;
  /** The largest relative difference of any output. */
  readonly maxRelative: number;
  readonly outputs: readonly VerifiedOutput[];
}

/**
 * Runs a pruned model and the full graph it was cut from on the same seeded inputs, on the CPU, and compares the outputs.
 * What is computed in the graph besides (pooling, an image input) is computed behind the full graph as well; a graph with a fixed
 * batch that was made dynamic is compared with runs of that batch.
 *
 * @param pruned - From {@link pruneModel}, or an extractor's `model`.
 * @param given - See {@link VerifyOptions}.
 * @returns The differences, by output.
 * @throws {@link TapirError} `SESSION_FAILED`, `RUN_FAILED` if one of the two does not run on made-up inputs; `INPUT_MISMATCH` if
 * values for an input cannot be made up.
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
  const options = withDefaults(VERIFY_DEFAULTS, given, 'verifyModel');
  const seed = checkInteger('seed', options.seed, 0, 2 ** 31 - 1);
  const rows = checkInteger('rows', options.rows, 1, 1024);
  for (const [name, size] of Object.entries(options.sizes)) checkInteger(`sizes.${name}`, size, 1, 65536);
  const graphOptimizationLevel = checkOneOf('graphOptimizationLevel', options.graphOptimizationLevel, [
    'disabled',
    'all',
  ]);
  const part = preparedOf(pruned);
  const whole = await prepareWhole(part);
  const fetches = whole.rewrite.outputs.map((output) => output.tensor);
  // A batch that was made dynamic is run at once; the full graph takes it batch by batch.
  const runs = part.rewrite.batch?.mode === 'dynamic' ? rows : 1;
  const feeds = seededFeeds(describeInputs(whole.rewrite), seed, { rows, runs, named: options.sizes });
  const expected = await inReplica(whole, { graphOptimizationLevel }, (replica) =>
    runBatch(replica, describeInputs(whole.rewrite), feeds, fetches),
  );
  // Tensors that the part is fed are outputs of the whole.
  const known = new Map<string, NamedTensor>([
    ...whole.rewrite.outputs.map(({ value }, i): [string, NamedTensor] => [
      value.name,
      { name: value.name, ...expected[i]! },
    ]),
    ...feeds.map((feed): [string, NamedTensor] => [feed.name, feed]),
  ]);
  const image = part.request.image && part.rewrite.inputs.at(-1);
  if (image) known.set(image.name, { ...known.get(whole.rewrite.inputs.at(-1)!.name)!, name: image.name });
  const inputs = describeInputs(part.rewrite);
  const actual = await inReplica(part, { graphOptimizationLevel }, (replica) =>
    runBatch(
      replica,
      inputs,
      inputs.map(({ name }) => known.get(name)!),
      part.rewrite.outputs.map((output) => output.tensor),
    ),
  );
  const outputs = part.rewrite.outputs.map(({ key }, i): VerifiedOutput => {
    const { dtype, dims } = actual[i]!;
    const { isEqual, maxDifference, maxRelative } = compareTensors(actual[i]!, expected[i]!);
    return { name: key, dtype, dims, isEqual, maxDifference, maxRelative };
  });
  return {
    seed,
    rows: feeds[0]?.dims[0] ?? rows,
    isEqual: outputs.every((output) => output.isEqual),
    maxRelative: Math.max(...outputs.map((output) => output.maxRelative)),
    outputs,
  };
}

async function inReplica<Result>(
  { model, rewrite }: Prepared,
  options: Parameters<typeof openExact>[2],
  use: (replica: Replica) => Promise<Result>,
): Promise<Result> {
  const replica = await openExact(model, rewrite, options);
  try {
    return await use(replica);
  } finally {
    await replica.close();
  }
}
