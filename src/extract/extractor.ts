/** What extractors have in common, on one device and on several. */
import { availableParallelism } from 'node:os';
import type { Options } from '../base/checks.js';
import type { ImageNormalization } from '../graph/rewrite/image-input.js';
import type { FeatureInfo } from '../model/prune/feature-info.js';
import { Internals } from '../model/open/internals.js';
import type { EngineName, EnginePrecision, Precision } from '../runtime/capabilities/capabilities.js';
import { hidesNan, precisionOf, type PrunedModel } from '../model/prune/pruned-model.js';
import { findBroken, readFeeds } from '../tensor/read-feeds.js';
import { mismatch, type DType, type NamedTensor, type Tensor } from '../tensor/tensor.js';
import type { TensorInfo } from '../tensor/tensor-info.js';
import { ReplicaSet } from './replicas/replica-set.js';
import type { RunInput, RunOptions } from './replicas/run-options.js';

const EXPECTED = 'an extractor, as createFeatureExtractor or DataParallel.create gives it';

/** The runner of each extractor. */
export const extractorInternals: Internals<Pick<Extractor, 'model'>, ReplicaSet> = new Internals(
  'extractor',
  EXPECTED,
);

/**
 * A feature extractor, on one device ({@link FeatureExtractor}) or on several ({@link DataParallel}).
 *
 * `Key` are the names of its outputs; `Type` is their element type, where the compiler knows it.
 */
export abstract class Extractor<Key extends string = string, Type extends DType = DType> {
  /** The model that it runs, to save or to inspect. */
  readonly model: PrunedModel;
  /** The inputs that must be fed. */
  readonly inputs: readonly TensorInfo[];
  /** The outputs, in the order of the request. */
  readonly outputs: readonly FeatureInfo[];
  /** With `input: 'image-uint8'`, how the graph normalises pixels; else null. */
  readonly imageNormalization: ImageNormalization | null;
  /** The device in use, or the devices with commas between them; `'auto'` is resolved. */
  readonly device: string;
  /** The library that runs the model. */
  readonly engine: EngineName;
  /** How that library is called (option `binding`): `'c'` or `'node'`; null for an engine that is called in one way. */
  readonly binding: string | null;
  /** How it computes: `int8` if the file is in 8 bits, that of a model that {@link lowerPrecision} gave, else {@link floatPrecision}. */
  readonly precision: Precision;
  /** How the engine computes float32 operators: the option `precision`. Of a model in 8 bits, these are the rest. */
  readonly floatPrecision: EnginePrecision;
  /** The version of the engine. */
  readonly runtime: string;

  /** Use {@link createFeatureExtractor}. */
  protected constructor(set: object) {
    if (!(set instanceof ReplicaSet))
      throw extractorInternals.refuse(set, 'new', 'left out: call createFeatureExtractor');
    extractorInternals.set(this, set);
    const { pruned, inputs, outputs, imageNormalization, lane } = set.model;
    this.model = pruned;
    this.inputs = inputs;
    this.outputs = outputs;
    this.imageNormalization = imageNormalization;
    this.device = set.replicas.map(({ device }) => device).join(', ');
    this.engine = lane.engine;
    this.binding = set.replicas[0]!.facts.binding?.name ?? null;
    this.floatPrecision = lane.precision;
    this.precision = precisionOf(pruned) ?? lane.precision;
    this.runtime = set.replicas[0]!.facts.runtime;
  }

  /** Runs the model on a batch. */
  abstract run(input: RunInput, given?: Options<RunOptions>): Promise<Record<Key, Tensor<Type>>>;

  /** Waits for the runs in flight, and ends the sessions that nothing else uses. Idempotent. */
  close(): Promise<void> {
    return extractorInternals.of(this).close();
  }

  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Reads the feeds of a run. With fixed scales of 8 bits, NaN would become a number, and a broken row would look healthy. */
export function feedsOf(
  { inputs, model }: Pick<Extractor, 'inputs' | 'model'>,
  input: RunInput,
): NamedTensor[] {
  const feeds = readFeeds(inputs, input);
  const broken = hidesNan(model) ? findBroken(feeds) : undefined;
  if (!broken) return feeds;
  const expected = 'finite: the model rounds it to 8 bits, which hides other values';
  throw mismatch(broken.name, expected, 'NaN or infinity');
}

/** How many batches at once keep all sessions of an extractor busy. */
export function runsAtOnce(extractor: Extractor): number {
  return extractorInternals.of(extractor).runsAtOnce;
}

/** How many threads may decode images beside an extractor: the cores that its devices leave free, or all if they leave none. */
export function coresToDecode(extractor: Extractor): number {
  const cores = availableParallelism();
  // A session on a GPU keeps one core busy. One on the CPU states its threads; 0 means all cores.
  const taken = extractorInternals
    .of(extractor)
    .sessions.reduce((sum, { type, threads }) => sum + (type === 'cpu' ? threads : 1), 0);
  return taken < cores ? cores - taken : cores;
}

/** Whether an extractor runs on the CPU alone. */
export function isOnCpu(extractor: Extractor): boolean {
  return extractorInternals.of(extractor).sessions.every(({ type }) => type === 'cpu');
}
