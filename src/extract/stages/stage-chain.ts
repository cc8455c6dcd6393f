/** The stages of a model in a row, each on its device or devices, as one runner: runs that overlap are in different stages. */
import { isTapirError, TapirError, reasonOf } from '../../base/errors.js';
import type { ReplicaRunOptions, Runner } from '../../run/runtime/replica.js';
import { wholePart, type FeedPart } from '../../onnx/tensor/tensor-part.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';
import { RunnerGroup } from './runner-group.js';

/** A stage that is open on its device. */
export interface OpenStage {
  readonly runner: Runner;
  /** What the runner is made of: one for each device. */
  readonly replicas: readonly Runner[];
  /** Names of the tensors that it takes: inputs of the model, or outputs of stages in front. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** A model in stages. It takes over its stages, and closes them. */
export class StageChain extends RunnerGroup {
  readonly stages: readonly OpenStage[];
  /** The last stage that takes each tensor. */
  readonly #lastTaker: ReadonlyMap<string, number>;

  constructor(stages: readonly OpenStage[]) {
    const runners = stages.map(({ runner }) => runner);
    super(
      runners,
      runners.map(({ device }) => device).join(' → '),
      runners.flatMap(({ facts }) => facts.outputs),
    );
    this.stages = stages;
    this.#lastTaker = new Map(stages.flatMap(({ inputs }, i) => inputs.map((name) => [name, i] as const)));
  }

  get isRemoved(): boolean {
    return this.runners.some(({ isRemoved }) => isRemoved);
  }

  /** @throws {@link TapirError} `STAGE_FAILED` with the stage, its device and the `cause`; the signal's reason if it fires. */
  protected override async runTogether(
    given: readonly FeedPart[],
    fetches: readonly string[],
    { signal, transfer = false }: ReplicaRunOptions,
  ): Promise<readonly NamedTensor[]> {
    const parts = new Map(given.map((part) => [part.name, part]));
    const made = new Map<string, NamedTensor>();
    for (const [i, { runner, inputs, outputs }] of this.stages.entries()) {
      const feeds = inputs.map((name) => (made.has(name) ? wholePart(made.get(name)!) : parts.get(name)!));
      // What nobody needs again moves on without a copy.
      const isLast = (name: string): boolean =>
        this.#lastTaker.get(name) === i && (made.has(name) ? !fetches.includes(name) : transfer);
      const isMoved = inputs.every(isLast);
      const wanted = outputs.filter((name) => fetches.includes(name) || this.#lastTaker.has(name));
      try {
        // oxlint-disable-next-line no-await-in-loop -- one stage after the other; other runs are in the other stages
        const results = await runner.run(feeds, wanted, { signal, transfer: isMoved });
        for (const result of results) made.set(result.name, result);
      } catch (error) {
        signal?.throwIfAborted();
        throw stageFailed(i, runner.device, error);
      }
      for (const name of inputs)
        if (this.#lastTaker.get(name) === i && !fetches.includes(name)) made.delete(name);
    }
    return fetches.map((name) => made.get(name)!);
  }
}

/** `error` names the device itself if the stage has several. */
function stageFailed(stage: number, all: string, error: unknown): TapirError<'STAGE_FAILED'> {
  const [device, cause] = isTapirError(error, 'REPLICA_FAILED')
    ? [error.details.device, error.cause]
    : [all, error];
  return new TapirError('STAGE_FAILED', `stage ${stage} on ${device} failed: ${reasonOf(cause)}`, {
    details: { stage, device },
    cause,
  });
}
