/** A network that rows leave as soon as an exit is sure of them: the stages after it run on the rows that are left. */
import { checkIterable, checkOneOf, givenFields, invalidOption, type Options } from '../../base/checks.js';
import { readOptions, unchecked, type Fields } from '../../base/options.js';
import type { ModelSource, OnnxModel } from '../../run/model/open/open-model.js';
import { readReturnNodes, type KeysOf, type ReturnNodes } from '../../run/model/open/return-nodes.js';
import { REWRITE_FIELDS, type RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import type { PrunedModel } from '../../run/model/prune/pruned-model.js';
import type { Devices } from '../../run/runtime/lanes/device.js';
import { LANE_FIELDS, type LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import { openAll } from '../../run/runtime/open-all.js';
import type { SessionOptions } from '../../run/runtime/lanes/session-options.js';
import { copyRow, selectRows, takeRow } from '../../onnx/tensor/rows.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import { elementCount, makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { createFeatureExtractor } from '../create-feature-extractor.js';
import { runsAtOnce, type Extractor } from '../extractor.js';
import { PARALLEL_FIELDS } from '../replicas/parallel-options.js';
import { readRunInput } from '../replicas/read-run-input.js';
import { mapInOrder } from '../../base/map-in-order.js';
import { readRunOptions, RUN_FIELDS, type RunInput, type RunOptions } from '../replicas/run-options.js';
import { checkClasses, checkLogits, countRows, type ExitLogits } from './exit-logits.js';
import { cutExits, onlyNode, type ExitPlace, type ExitStage } from './exit-model.js';
import {
  CRITERIA,
  fitThresholds,
  readUntils,
  scoreOf,
  type Criterion,
  type Leaves,
  type Until,
} from './until.js';

/** An exit in front of the network's end. */
export interface Exit extends ExitPlace {
  /** When a row leaves here. */
  readonly until: Until;
}

/** Options of {@link createEarlyExit}. */
export interface EarlyExitOptions
  extends LaneOptions, Pick<RewriteOptions, 'input' | 'batch' | 'inputSizes'> {
  /** From the first to the last. */
  readonly exits: readonly Exit[];
  /**
   * The devices. Each holds all stages, and takes rows when it is free; see {@link FeatureExtractorOptions.devices}.
   * @default ['cpu']
   */
  readonly devices: Devices;
  /**
   * Rows of a part, if there are several devices; see {@link ParallelOptions.microBatch}.
   * @default 0
   */
  readonly microBatch: number;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Options<SessionOptions>;
}

const EARLY_EXIT_FIELDS: Fields<EarlyExitOptions> = {
  ...LANE_FIELDS,
  input: REWRITE_FIELDS.input,
  batch: REWRITE_FIELDS.batch,
  inputSizes: REWRITE_FIELDS.inputSizes,
  exits: unchecked([]),
  devices: unchecked(['cpu']),
  microBatch: PARALLEL_FIELDS.microBatch,
  session: unchecked({}),
};

/** Options of {@link EarlyExit.run}. */
export interface EarlyExitRunOptions extends RunOptions {
  /**
   * Other conditions than those of the exits, one per exit: what {@link EarlyExit.fit} gives.
   * @default undefined
   */
  readonly until: readonly Until[] | undefined;
}

const EXIT_RUN_FIELDS: Fields<EarlyExitRunOptions> = { ...RUN_FIELDS, until: unchecked(undefined) };

/** What a run gives: logits by key, and the exit of each row. */
export type EarlyExitResult<Key extends string> = Record<Key, Tensor<'float32'>> & {
  /** For each row, the index of the exit that it left at; the number of exits for a row that went to the end. */
  readonly exits: readonly number[];
};

/** What all rows have at one exit. */
export type AnytimeResult<Key extends string> = Record<Key, Tensor<'float32'>> & { readonly exit: number };

/** A stage that is open. */
interface OpenStage extends ExitStage {
  readonly extractor: Extractor;
}

/** What a network with exits is made of. */
interface ExitParts<Key> {
  readonly key: Key;
  readonly inputs: readonly TensorInfo[];
  readonly stages: readonly OpenStage[];
  readonly leaves: readonly Leaves[];
}

let newEarlyExit: <Key extends string>(parts: ExitParts<Key>) => EarlyExit<Key>;

/**
 * A network with exits. Made by {@link createEarlyExit}.
 *
 * @remarks Each row equals that of the full run bit for bit where ONNX Runtime computes rows independently of the batch, as it does for
 * convolutions and matrix products on the CPU. A batch goes through the stages exit by exit; rows that stay are put together again.
 */
export class EarlyExit<Key extends string = string> {
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /** The stages, one more than exits, to save or to inspect. */
  readonly models: readonly PrunedModel[];
  readonly #key: Key;
  readonly #stages: readonly OpenStage[];
  readonly #leaves: readonly Leaves[];

  static {
    newEarlyExit = (parts) => new EarlyExit(parts);
  }

  private constructor({ key, inputs, stages, leaves }: ExitParts<Key>) {
    this.inputs = inputs;
    this.models = stages.map(({ model }) => model);
    this.#key = key;
    this.#stages = stages;
    this.#leaves = leaves;
  }

  /**
   * Runs a batch: each row up to the exit where it leaves.
   *
   * @param input - As for {@link FeatureExtractor.run}.
   * @param given - See {@link EarlyExitRunOptions}.
   * @returns The logits of the exit that each row took, in the order of the rows, and the exits.
   * @throws {@link TapirError} those of {@link FeatureExtractor.run}; `INPUT_MISMATCH` if inputs have different numbers of rows;
   * `OUTPUT_MISFIT` if an exit gives another shape than the first one.
   */
  async run(input: RunInput, given: Options<EarlyExitRunOptions> = {}): Promise<EarlyExitResult<Key>> {
    const { until, ...rest } = readOptions(EXIT_RUN_FIELDS, given, 'run');
    const leaves = until === undefined ? this.#leaves : readUntils('until', until, this.#stages.length - 1);
    const exits: number[] = [];
    let result: Tensor<'float32'> | undefined;
    const stay = ({ exit, rows, logits }: ExitLogits): number[] => {
      result ??= makeTensor('float32', logits.dims, new Float32Array(logits.data.length));
      const { data } = result;
      const size = elementCount(logits.dims.slice(1));
      const isLeaving = (index: number, at: number): boolean =>
        leaves[exit]?.({ index, exit, logits: logits.data.subarray(at * size, (at + 1) * size) }) ?? true;
      return [...rows.keys()].filter((at) => {
        const index = rows[at]!;
        if (!isLeaving(index, at)) return true;
        copyRow(logits.data, at, data, index, size);
        exits[index] = exit;
        return false;
      });
    };
    for await (const _ of this.#walk(input, rest, stay));
    return { [this.#key]: result!, exits } as unknown as EarlyExitResult<Key>;
  }

  /**
   * Runs many batches, several at once, so that devices that wait for the rows of one batch work on another.
   *
   * @param inputs - The batches.
   * @param given - See {@link EarlyExitRunOptions}.
   * @returns Their results, in the order of the batches.
   */
  map(
    inputs: Iterable<RunInput> | AsyncIterable<RunInput>,
    given: Options<EarlyExitRunOptions> = {},
  ): AsyncGenerator<EarlyExitResult<Key>> {
    return mapInOrder(inputs, runsAtOnce(this.#stages[0]!.extractor), (input) => this.run(input, given));
  }

  /**
   * Runs a batch to the end, and gives the logits of all rows at each exit on the way: the result gets better until you stop. What
   * comes after the exit where you stop is not computed.
   */
  async *anytime(input: RunInput, given: Options<RunOptions> = {}): AsyncGenerator<AnytimeResult<Key>> {
    const all = ({ rows }: ExitLogits): number[] => [...rows.keys()];
    for await (const { exit, logits } of this.#walk(input, readRunOptions(given), all))
      yield { [this.#key]: logits, exit } as unknown as AnytimeResult<Key>;
  }

  /**
   * Fits conditions to a budget: thresholds with which given shares of rows leave at each exit, on validation data.
   *
   * @param inputs - Batches that are like those to come.
   * @param given - `by`: what is compared with the thresholds. `shares`: for each exit, the share of all rows that is to leave there, from
   * 0 to 1; the rest goes to the end.
   * @returns Conditions for the option `until` of {@link EarlyExit.run}, or for `exits`.
   * @throws {@link TapirError} `OPTION_INVALID` for shares that are negative or more than 1 together, or if there are no rows.
   */
  async fit(
    inputs: Iterable<RunInput> | AsyncIterable<RunInput>,
    given: { readonly by: Criterion; readonly shares: readonly number[] },
  ): Promise<Until[]> {
    const { by, shares } = givenFields(given, 'fit');
    const count = this.#stages.length - 1;
    const criterion = checkOneOf('by', by, CRITERIA);
    checkShares(shares, count);
    const scores: number[][] = Array.from({ length: count }, () => []);
    for await (const input of checkIterable('inputs', inputs, 'an (async) iterable of batches'))
      for await (const { exit, [this.#key]: logits } of this.anytime(input)) {
        if (exit === count) continue;
        for (let row = 0; row < logits.dims[0]!; row++)
          scores[exit]!.push(scoreOf(criterion, takeRow(logits, row).data as Float32Array));
      }
    if (scores[0]?.length === 0) throw invalidOption('inputs', 'at least one row', 'none');
    const thresholds = fitThresholds(criterion, scores, shares);
    return thresholds.map((threshold) => ({ [criterion]: threshold }) as Until);
  }

  /** Runs stage after stage, each on the rows that stayed at the exit before it. */
  async *#walk(
    input: RunInput,
    { signal, transfer }: RunOptions,
    stay: (at: ExitLogits) => number[],
  ): AsyncGenerator<ExitLogits> {
    const feeds = readRunInput(this.inputs, input);
    let rows = Array.from({ length: countRows(feeds) }, (_, row) => row);
    let known = new Map<string, Tensor>(feeds.map((feed) => [feed.name, feed]));
    let classes: string | undefined;
    for (const [exit, { extractor, inputs, logits: name }] of this.#stages.entries()) {
      const later = new Set(this.#stages.slice(exit + 1).flatMap((stage) => stage.inputs));
      const fed = Object.fromEntries(inputs.map((tensor) => [tensor, known.get(tensor)!]));
      // The caller's tensors are copied; ours move on, unless a later stage reads them, too.
      const isOurs = exit > 0 && inputs.every((tensor) => !this.inputs.some((one) => one.name === tensor));
      const isMoved = (exit === 0 ? transfer : isOurs) && !inputs.some((tensor) => later.has(tensor));
      const outputs = await extractor.run(fed, { signal, transfer: isMoved });
      const logits = checkLogits(exit, outputs[name], rows.length, classes);
      classes ??= logits.dims.slice(1).join();
      const at = { exit, rows, logits };
      const kept = stay(at);
      yield at;
      if (kept.length === 0 && rows.length > 0) return;
      known = new Map([...known, ...Object.entries(outputs)].filter(([tensor]) => later.has(tensor)));
      if (kept.length === rows.length) continue;
      for (const [tensor, whole] of known) known.set(tensor, selectRows(whole, kept));
      rows = kept.map((row) => rows[row]!);
    }
  }

  /** Waits for the runs in flight, and ends the sessions. Idempotent. */
  async close(): Promise<void> {
    // In order, so that a run in flight finds the next stage open.
    // oxlint-disable-next-line no-await-in-loop
    for (const { extractor } of this.#stages) await extractor.close();
  }

  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function checkShares(shares: readonly number[], count: number): void {
  const isFit =
    Array.isArray(shares) &&
    shares.length === count &&
    shares.every((share) => share >= 0) &&
    shares.reduce((sum, share) => sum + share, 0) <= 1 + 1e-9;
  if (!isFit) throw invalidOption('shares', `${count} shares of at most 1 together`, shares);
}

/**
 * Makes a network with exits from a model: rows leave at the first exit that is sure of them, and the rest of the network runs on the
 * rows that are left.
 *
 * An exit is a node that gives logits, or a node with a linear head, such as a probe trained on its pooled features. Nodes that no
 * exit needs are not computed.
 *
 * @param model - A model, or where to open one.
 * @param returnNodes - The network's own logits: one node.
 * @param given - See {@link EarlyExitOptions}; `exits` is required.
 * @returns The network; close it after use.
 * @throws {@link TapirError} those of {@link pruneModel}; `SPLIT_IMPOSSIBLE` where rows cannot leave;
 * `OUTPUT_MISFIT`; `SESSION_FAILED`; `DEVICE_UNAVAILABLE`; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { createEarlyExit } from 'onnx-tapir/stages';
 *
 * const early = await createEarlyExit('msdnet.onnx', { final: 'logits' }, {
 *   exits: [
 *     { node: 'exit1', until: { confidence: 0.9 } },
 *     { node: 'exit2', until: { confidence: 0.8 } },
 *   ],
 * });
 * const { logits, exits } = await early.run({ dtype: 'float32', dims: [8, 3, 224, 224], data: new Float32Array(8 * 3 * 224 * 224) });
 * console.log(logits.dims, exits); // [8, 1000] [0, 2, 0, 1, 0, 0, 2, 0]
 * await early.close();
 * ```
 */
export async function createEarlyExit<const Nodes extends ReturnNodes>(
  model: OnnxModel | ModelSource,
  returnNodes: Nodes,
  given: Options<EarlyExitOptions> & Pick<EarlyExitOptions, 'exits'>,
): Promise<EarlyExit<KeysOf<Nodes>>> {
  const options = readOptions(EARLY_EXIT_FIELDS, given, 'createEarlyExit');
  const { exits, devices, microBatch, session, input, batch, inputSizes, ...lane } = options;
  if (!Array.isArray(exits) || exits.length === 0)
    throw invalidOption('exits', 'a list of { node, until }', exits);
  // Read now: what the caller does to the options later changes nothing.
  const conditions = exits.map(({ until }) => until);
  const leaves = readUntils('exits', conditions, exits.length, '.until');
  const final = onlyNode(readReturnNodes(returnNodes).pairs);
  const { inputs, stages } = await cutExits(model, exits, final, { input, batch, inputSizes });
  const single = Array.isArray(devices) && devices.length === 1;
  const place = single
    ? { device: devices[0]! }
    : { devices, parallel: { split: 'dynamic', microBatch } as const };
  const opened = await openAll(
    stages.map((stage) =>
      createFeatureExtractor(stage.model, undefined, { ...lane, session, ...place, outputDtype: 'keep' }),
    ),
    (extractor) => extractor.close(),
  );
  const open = stages.map((stage, i) => Object.assign(stage, { extractor: opened[i]! }));
  const network = newEarlyExit({ key: final.key as KeysOf<Nodes>, inputs, stages: open, leaves });
  try {
    checkClasses(
      open.map(({ extractor, logits }) =>
        extractor.outputs.find(({ name }) => name === logits)?.dims?.slice(1),
      ),
    );
    return network;
  } catch (error) {
    await network.close();
    throw error;
  }
}
