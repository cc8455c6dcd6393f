/**
 * Moments of norms with a barrier at each level of them: all rows pass a stage on all devices, their moments are combined, and the next
 * stage normalises by the result. One pass over the data.
 */
import { invalidOption } from '../../../base/checks.js';
import type { Value } from '../../../onnx/graph/graph.js';
import { ELEMENT_BITS } from '../../../onnx/file/wire/schema.js';
import type { Replica, Runner } from '../../../run/runtime/replica.js';
import type { Batch } from '../../../onnx/tensor/batch.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import type { Outputs } from '../../../extract/replicas/dispatch.js';
import { readBatches, splitBatch, type BatchSource } from '../../../extract/replicas/batch-pieces.js';
import { closeAll, openOnDevices, runOn, type Place } from '../../../extract/replicas/rewrite-sessions.js';
import type { ChannelMoments } from './channel-moments.js';
import type { NormLayer, NormMoments } from './norm-layers.js';
import { checkCounts } from './one-pass.js';
import {
  combineTaps,
  cutForward,
  feedMoments,
  passStage,
  readStages,
  type ForwardStage,
  type Stages,
  type Travelling,
} from './stage-walk.js';

/** How stages run. */
export interface Staged {
  /** Whether all rows are normalised together, instead of those of each batch. */
  readonly isWhole: boolean;
  /** Whether to refuse a single value per channel, as torch does in train mode. */
  readonly isTraining: boolean;
  /** Most bytes of tensors between two stages. A single batch may exceed them. */
  readonly memoryBytes: number;
}

/** A piece on its way through the stages. */
interface UnitPiece extends Travelling {
  /** The rows that it is normalised with. */
  readonly unit: number;
}

/** Runs all batches through all stages. Yields the moments of each batch in order, or those of all rows. */
export async function* runStaged(
  place: Place,
  layers: readonly NormLayer[],
  source: BatchSource,
  options: Staged,
): AsyncGenerator<NormMoments> {
  const { model, signal } = place;
  const { stages, typeOf } = await readStages(model, layers);
  const graphs = stages.map((stage) => cutForward(model, stage, layers, typeOf));
  const batches = readBatches(model.inputs, source, signal);
  const run = new StageRun(place, graphs, options, rowBytesOf({ stages, typeOf }));
  let group: Batch[] = [];
  for await (const batch of batches) {
    if (group.length > 0 && !run.hasRoom(group, batch)) {
      yield* await run.through(group);
      group = [];
    }
    group.push(batch);
  }
  yield* await run.through(group);
}

/** Largest number of bytes per row between two stages; 0 if a size is open. */
function rowBytesOf({ stages, typeOf }: Stages): number {
  const bytesOfRow = (value: Value): number => {
    const { elemType, dims } = typeOf(value);
    const sizes = (dims ?? [null, null]).slice(1);
    return sizes.reduce<number>(
      (product, size) => product * (typeof size === 'number' ? size : NaN),
      (ELEMENT_BITS.get(elemType) ?? 0) / 8,
    );
  };
  let [held, most] = [0, 0];
  for (const { gives, frees } of stages) {
    for (const value of gives) held += bytesOfRow(value);
    most = Math.max(most, held);
    for (const value of frees) held -= bytesOfRow(value);
  }
  return Number.isNaN(most) ? 0 : most;
}

class StageRun {
  readonly #place: Place;
  readonly #graphs: readonly ForwardStage[];
  readonly #options: Staged;
  /** Largest number of bytes per row between two stages; 0 while it is not known. */
  #rowBytes: number;
  /** Bytes of the batches that are on their way. */
  #fed = 0;
  /** Ends runs that wait when the memory is used up. */
  readonly #stop = new AbortController();

  constructor(place: Place, graphs: readonly ForwardStage[], options: Staged, rowBytes: number) {
    this.#rowBytes = rowBytes;
    this.#place = place;
    this.#graphs = graphs;
    this.#options = options;
  }

  /** Whether a batch goes together with others. With open sizes, the first one goes alone, to be measured. */
  hasRoom(group: readonly Batch[], next: Batch): boolean {
    const { isWhole, memoryBytes } = this.#options;
    if (isWhole) {
      this.#check([...group, next].reduce((sum, batch) => sum + feedBytes(batch), 0));
      return true;
    }
    const rows = [...group, next].reduce((sum, batch) => sum + (batch.rows ?? 1), 0);
    return this.#rowBytes > 0 && rows * this.#rowBytes <= memoryBytes;
  }

  /** Takes batches through all stages. */
  async through(group: readonly Batch[]): Promise<NormMoments[]> {
    const { devices, split } = this.#place;
    const { isWhole } = this.#options;
    const pieces = group.flatMap((batch, i) =>
      splitBatch(batch, devices.length, split).map(({ replica, range, feeds }): UnitPiece => ({
        replica,
        range,
        feeds,
        unit: isWhole ? 0 : i,
        held: new Map(),
      })),
    );
    const units = Array.from(
      { length: isWhole ? 1 : group.length },
      () => new Map<NormLayer, ChannelMoments>(),
    );
    const rows = group.reduce((sum, batch) => sum + (batch.rows ?? 1), 0);
    this.#fed = group.reduce((sum, batch) => sum + feedBytes(batch), 0);
    let next = this.#open(0);
    try {
      for (const [i, graph] of this.#graphs.entries()) {
        const replicas = await next;
        // The next stage opens while this one runs.
        next = this.#open(i + 1);
        const outputs = await this.#runStage(graph, replicas, pieces, units);
        for (const [unit, moments] of units.entries()) {
          const ofUnit = outputs.filter((_, at) => pieces[at]!.unit === unit);
          combineTaps(graph, ofUnit, moments);
        }
        if (this.#options.isTraining) for (const moments of units) checkCounts(moments);
        this.#rowBytes = Math.max(this.#rowBytes, (this.#fed + heldBytes(pieces)) / rows);
        for (const { held } of pieces) for (const { name } of graph.stage.frees) held.delete(name);
      }
    } finally {
      await next.then(closeAll, () => undefined);
    }
    return units;
  }

  /** Runs a stage on all pieces, which then hold what later stages read, and closes its sessions. */
  async #runStage(
    graph: ForwardStage,
    replicas: readonly Replica[],
    pieces: readonly UnitPiece[],
    units: readonly NormMoments[],
  ): Promise<Outputs[]> {
    const signal = AbortSignal.any([...(this.#place.signal ? [this.#place.signal] : []), this.#stop.signal]);
    const statistics = units.map((moments) => feedMoments(graph.feeds, moments));
    const run = async (replica: Runner, piece: UnitPiece): Promise<Outputs> => {
      const tapped = await passStage(graph, replica, piece, statistics[piece.unit]!, signal);
      if (this.#options.isWhole) this.#check(this.#fed + heldBytes(pieces));
      return tapped;
    };
    try {
      return await runOn(replicas, pieces, run, signal);
    } finally {
      await closeAll(replicas);
    }
  }

  /** Opens a stage on each device; nothing after the last one. */
  #open(i: number): Promise<Replica[]> {
    const graph = this.#graphs[i];
    const opening = graph ? openOnDevices(this.#place, graph.rewrite) : Promise.resolve([]);
    // Awaited in its turn. Until then, a failure must not count as unhandled.
    opening.catch(() => undefined);
    return opening;
  }

  /** Refuses to hold more than allowed. Throws `OPTION_INVALID`. */
  #check(bytes: number): void {
    const { memoryBytes } = this.#options;
    if (bytes <= memoryBytes) return;
    const expected = `more than ${bytes}: mode "adabn-sequential" holds all rows between two norms (raise the limit, give fewer rows, or choose mode "adabn" or "synced")`;
    const error = invalidOption('memoryBytes', expected, memoryBytes);
    this.#stop.abort(error);
    throw error;
  }
}

function feedBytes({ feeds }: Batch): number {
  return feeds.reduce((sum, feed) => sum + ('data' in feed ? bytesOf(feed.data).byteLength : 0), 0);
}

function heldBytes(pieces: readonly Travelling[]): number {
  return pieces.reduce(
    (sum, { held }) => sum + [...held.values()].reduce((own, { data }) => own + bytesOf(data).byteLength, 0),
    0,
  );
}
