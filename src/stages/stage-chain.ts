/** The stages of a model in a row, each on its device, as one runner: runs that overlap are in different stages. */
import { TapirError, reasonOf } from '../base/errors.js';
import type { ResolvedDevice } from '../runtime/lanes/device.js';
import type { LaneDeathPolicy } from '../runtime/lane-pool.js';
import type { SessionFacts } from '../runtime/lanes/protocol.js';
import type { ReplicaCounts, ReplicaRunOptions, ReplicaSpent, Runner } from '../runtime/replica.js';
import { WarmSizes } from '../runtime/warm-sizes.js';
import { wholePart, type FeedPart } from '../tensor/tensor-part.js';
import type { NamedTensor } from '../tensor/tensor.js';

/** A stage that is open on its device. */
export interface OpenStage {
  readonly runner: Runner;
  /** Names of the tensors that it takes: inputs of the model, or outputs of stages in front. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

/** A model in stages. It takes over its stages, and closes them. */
export class StageChain implements Runner {
  readonly facts: SessionFacts;
  readonly device: string;
  readonly devices: readonly ResolvedDevice[];
  readonly onLaneDeath: LaneDeathPolicy = 'restart';
  readonly warmSizes: WarmSizes | undefined;
  readonly recentRowMs: readonly number[] = [];
  readonly stages: readonly OpenStage[];
  /** The last stage that takes each tensor. */
  readonly #lastTaker: ReadonlyMap<string, number>;
  #load = 0;
  #runs = 0;
  #failures = 0;

  constructor(stages: readonly OpenStage[]) {
    const runners = stages.map(({ runner }) => runner);
    this.stages = stages;
    this.#lastTaker = new Map(stages.flatMap(({ inputs }, i) => inputs.map((name) => [name, i] as const)));
    this.device = runners.map(({ device }) => device).join(' → ');
    this.devices = runners.flatMap(({ devices }) => devices);
    this.warmSizes = runners.some(({ warmSizes }) => warmSizes) ? new WarmSizes() : undefined;
    const fallback = runners.find(({ facts }) => facts.fallback !== undefined)?.facts.fallback;
    this.facts = {
      ...runners[0]!.facts,
      outputs: runners.flatMap(({ facts }) => facts.outputs),
      ...(fallback === undefined ? {} : { fallback }),
    };
  }

  get isRemoved(): boolean {
    return this.stages.some(({ runner }) => runner.isRemoved);
  }

  get load(): number {
    return this.#load;
  }

  get counts(): ReplicaCounts {
    const restarts = this.stages.reduce((sum, { runner }) => sum + runner.counts.restarts, 0);
    return { runs: this.#runs, failures: this.#failures, restarts };
  }

  get spent(): ReplicaSpent {
    const all = this.stages.map(({ runner }) => runner.spent);
    return {
      runMs: all.reduce((sum, { runMs }) => sum + runMs, 0),
      feedMs: all.reduce((sum, { feedMs }) => sum + feedMs, 0),
    };
  }

  get pids(): readonly number[] {
    return this.stages.flatMap(({ runner }) => runner.pids);
  }

  /** @throws {@link TapirError} `STAGE_FAILED` with the stage, its device and the `cause`; the signal's reason if it fires. */
  async run(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    { signal, transfer = false }: ReplicaRunOptions = {},
  ): Promise<readonly NamedTensor[]> {
    this.#load++;
    try {
      const outputs = await this.#run(parts, fetches, { signal, transfer });
      this.#runs++;
      return outputs;
    } catch (error) {
      if (!signal?.aborted) this.#failures++;
      throw error;
    } finally {
      this.#load--;
    }
  }

  async #run(
    given: readonly FeedPart[],
    fetches: readonly string[],
    { signal, transfer }: ReplicaRunOptions,
  ): Promise<readonly NamedTensor[]> {
    const parts = new Map(given.map((part) => [part.name, part]));
    const made = new Map<string, NamedTensor>();
    for (const [i, { runner, inputs, outputs }] of this.stages.entries()) {
      const feeds = inputs.map((name) => (made.has(name) ? wholePart(made.get(name)!) : parts.get(name)!));
      // What nobody needs again moves on without a copy.
      const isLast = (name: string): boolean =>
        this.#lastTaker.get(name) === i && (made.has(name) ? !fetches.includes(name) : transfer === true);
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

  async close(): Promise<void> {
    await Promise.all(this.stages.map(({ runner }) => runner.close()));
  }
}

function stageFailed(stage: number, device: string, cause: unknown): TapirError<'STAGE_FAILED'> {
  return new TapirError('STAGE_FAILED', `stage ${stage} on ${device} failed: ${reasonOf(cause)}`, {
    details: { stage, device },
    cause,
  });
}
