/** Several runners as one: what they have in common, and what they have done. */
import type { LaneDeathPolicy } from '../../run/runtime/lane-pool.js';
import type { ResolvedDevice } from '../../run/runtime/lanes/device.js';
import type { SessionFacts } from '../../run/runtime/lanes/protocol.js';
import type { ReplicaCounts, ReplicaRunOptions, ReplicaSpent, Runner } from '../../run/runtime/replica.js';
import { WarmSizes } from '../../run/runtime/warm-sizes.js';
import type { FeedPart } from '../../onnx/tensor/tensor-part.js';
import type { NamedTensor } from '../../onnx/tensor/tensor.js';

/** Runners that run a model together. It takes them over, and closes them. */
export abstract class RunnerGroup implements Runner {
  readonly facts: SessionFacts;
  readonly device: string;
  readonly devices: readonly ResolvedDevice[];
  readonly onLaneDeath: LaneDeathPolicy = 'restart';
  readonly warmSizes: WarmSizes | undefined;
  readonly recentRowMs: readonly number[] = [];
  protected readonly runners: readonly Runner[];
  #load = 0;
  #runs = 0;
  #failures = 0;

  protected constructor(runners: readonly Runner[], device: string, outputs: SessionFacts['outputs']) {
    this.runners = runners;
    this.device = device;
    this.devices = runners.flatMap(({ devices }) => devices);
    this.warmSizes = runners.some(({ warmSizes }) => warmSizes) ? new WarmSizes() : undefined;
    const fallback = runners.find(({ facts }) => facts.fallback !== undefined)?.facts.fallback;
    this.facts = { ...runners[0]!.facts, outputs, ...(fallback === undefined ? {} : { fallback }) };
  }

  abstract get isRemoved(): boolean;

  get load(): number {
    return this.#load;
  }

  get counts(): ReplicaCounts {
    const restarts = this.runners.reduce((sum, { counts }) => sum + counts.restarts, 0);
    return { runs: this.#runs, failures: this.#failures, restarts };
  }

  get spent(): ReplicaSpent {
    const all = this.runners.map(({ spent }) => spent);
    return {
      runMs: all.reduce((sum, { runMs }) => sum + runMs, 0),
      feedMs: all.reduce((sum, { feedMs }) => sum + feedMs, 0),
    };
  }

  get pids(): readonly number[] {
    return this.runners.flatMap(({ pids }) => pids);
  }

  async run(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    options: ReplicaRunOptions = {},
  ): Promise<readonly NamedTensor[]> {
    this.#load++;
    try {
      const outputs = await this.runTogether(parts, fetches, options);
      this.#runs++;
      return outputs;
    } catch (error) {
      if (!options.signal?.aborted) this.#failures++;
      throw error;
    } finally {
      this.#load--;
    }
  }

  protected abstract runTogether(
    parts: readonly FeedPart[],
    fetches: readonly string[],
    options: ReplicaRunOptions,
  ): Promise<readonly NamedTensor[]>;

  async close(): Promise<void> {
    await Promise.all(this.runners.map((runner) => runner.close()));
  }
}
