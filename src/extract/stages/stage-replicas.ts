/** One stage on several devices, as one runner: each part of a batch goes to whichever is free, or its rows are split over them. */
import { invalidOption } from '../../base/checks.js';
import { runTasks } from '../replicas/dispatch.js';
import { planBatch } from '../replicas/parallel-plan.js';
import { stateOf } from '../replicas/replica-set.js';
import type { Split } from '../replicas/split.js';
import type { Node } from '../../onnx/graph/graph.js';
import { describeNode } from '../../onnx/graph/rewrite/prune.js';
import { prunedInternals } from '../../run/model/prune/pruned-model.js';
import type { ReplicaRunOptions, Runner } from '../../run/runtime/replica.js';
import type { RowRange } from '../../onnx/tensor/batch.js';
import { gather } from '../../onnx/tensor/gather.js';
import type { TensorInfo } from '../../onnx/tensor/tensor-info.js';
import type { FeedPart } from '../../onnx/tensor/tensor-part.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import { RunnerGroup } from './runner-group.js';
import type { ModelStage } from './split-model.js';

/** How parts of a batch reach the devices of a stage, and which of its inputs have a row per sample. */
export interface StageSplit {
  readonly split: Split;
  readonly batched: ReadonlySet<string>;
}

/** A stage whose devices each hold it. Failures are `REPLICA_FAILED`, with the device. */
export class StageReplicas extends RunnerGroup {
  readonly #how: StageSplit;

  constructor(replicas: readonly Runner[], how: StageSplit) {
    super(replicas, replicas.map(({ device }) => device).join(' + '), replicas[0]!.facts.outputs);
    this.#how = how;
  }

  get isRemoved(): boolean {
    return this.runners.every(({ isRemoved }) => isRemoved);
  }

  protected override async runTogether(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    options: ReplicaRunOptions,
  ): Promise<readonly NamedTensor[]> {
    const { split, batched } = this.#how;
    const rows = parts.find(({ name }) => batched.has(name))?.size ?? null;
    const batch = { feeds: [], axis: 0, isBatched: [], rows, fixed: null, isPhotos: false };
    const isWhole = split === 'dynamic' || rows === null;
    const plan = planBatch(batch, isWhole ? 'none' : split, this.runners.map(stateOf), 0);
    const tasks = 'tasks' in plan ? plan.tasks : [];
    // Parts of one tensor share its buffer.
    const transfer = options.transfer === true && tasks.length === 1;
    const outputs = await runTasks(this.runners, tasks, (replica, { range }) =>
      replica.run(
        tasks.length === 1
          ? parts
          : parts.map((part) => (batched.has(part.name) ? rowsOf(part, range) : part)),
        fetches,
        { ...options, transfer },
      ),
    );
    return gather(outputs, 0);
  }
}

/** Some rows of a part. Rows behind its end stay zeros. */
function rowsOf(part: FeedPart, { start, count }: RowRange): FeedPart {
  return {
    ...part,
    start: part.start + start,
    count: Math.max(0, Math.min(count, part.count - start)),
    size: count,
  };
}

/** What is known of the rows of a model. */
export interface KnownRows {
  /** The names that the model gives to its open batches. */
  readonly batches: ReadonlySet<string>;
  /** The nodes at which rows meet, and what these do. */
  readonly mixed: ReadonlyMap<Node, string>;
}

/** Says where rows meet. */
export function describeMeeting(node: Node, what: string): string {
  return `${node.opType} "${describeNode(node)}" ${what}`;
}

/**
 * Finds out which inputs of a stage have a row per sample, which its rows are split by.
 *
 * @throws {@link TapirError} `OPTION_INVALID` if rows must be split, and the file does not prove where they are, or shows that they depend on
 * one another.
 */
export function planStage(
  { model, inputs, outputs }: Pick<ModelStage, 'model' | 'inputs' | 'outputs'>,
  split: Split,
  { batches, mixed }: KnownRows,
  option: string,
): StageSplit {
  const isBatched = ({ dims }: TensorInfo): boolean => typeof dims?.[0] === 'string' && batches.has(dims[0]);
  const batched = new Set(inputs.filter(isBatched).map(({ name }) => name));
  // Parts of a model with a fixed batch are never split.
  if (split === 'dynamic' || split === 'none' || batches.size === 0) return { split, batched };
  const unproven =
    inputs.find((input) => !isBatched(input) && typeof input.dims?.[0] !== 'number') ??
    outputs.find((output) => !isBatched(output));
  if (unproven)
    throw invalidOption(
      option,
      `"dynamic" or "none" here: the file does not say that "${unproven.name}" has a row per sample`,
      split,
    );
  const { nodes } = prunedInternals.of(model).rewrite.cut;
  const meeting = [...mixed].find(([node]) => nodes.has(node));
  if (meeting)
    throw invalidOption(
      option,
      `"dynamic" or "none" here: rows of a batch depend on one another, as ${describeMeeting(...meeting)}`,
      split,
    );
  return { split, batched };
}
