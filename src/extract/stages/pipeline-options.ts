/** What a pipeline is asked for: its stages, their devices, and how models and sessions are made. */
import { invalidOption, isPlainObject, pickFields, type Options } from '../../base/checks.js';
import { optional, readOptions, refuseUnused, unchecked, type Fields } from '../../base/options.js';
import { OUTPUT_DTYPE, type OutputDtypeOption } from '../replicas/output-dtype.js';
import { PARALLEL_FIELDS } from '../replicas/parallel-options.js';
import { readSplit, type Split } from '../replicas/split.js';
import type { SessionSetup } from '../../run/model/lanes/session-model.js';
import { checkNames } from '../../run/model/open/return-nodes.js';
import { REWRITE_FIELDS, type RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import {
  readDevices,
  type Device,
  type Devices,
  type ResolvedDevice,
} from '../../run/runtime/lanes/device.js';
import { LANE_FIELDS, readLaneOptions, type LaneOptions } from '../../run/runtime/lanes/lane-options.js';
import { readSessionOptions, type SessionOptions } from '../../run/runtime/lanes/session-options.js';
import {
  readSpan,
  SPLIT_FIELDS,
  type SplitOptions,
  type SplitPlaces,
  type StageSpan,
} from './split-model.js';

/** A stage of a pipeline: where it ends, and its devices. */
export interface StagePlace extends StageSpan {
  /** Its devices, each once; another stage may lie on the same ones. With several, each holds the stage. */
  readonly devices: readonly Device[];
  /**
   * How rows reach its devices, as in {@link DataParallelOptions.split}: `'dynamic'` gives each part of a batch to the device that is free.
   * The others split the rows of each part. That needs proof in the file which tensors have a row per sample, and that no node of the stage
   * mixes rows.
   * @default PipelineOptions.split
   */
  readonly split?: Split;
}

/** Options of {@link Pipeline.create}. */
export interface PipelineOptions
  extends
    Omit<RewriteOptions, keyof OutputDtypeOption>,
    OutputDtypeOption,
    LaneOptions,
    Pick<SplitOptions, 'by' | 'maxTensors' | 'memoryBytes'> {
  /**
   * The device of each stage, in order; as many stages as devices. `'all'` is every CUDA GPU that is visible. Lists of devices are
   * pipelines side by side, each of which holds the whole model: `[['cuda:0', 'cuda:1'], ['cuda:2', 'cuda:3']]`.
   */
  readonly devices: Devices | readonly (readonly Device[])[];
  /**
   * Names of the values after which to cut, one fewer than devices. Without them, the stages are balanced; see
   * {@link SplitOptions.by}.
   * @default undefined
   */
  readonly cuts: readonly string[] | undefined;
  /**
   * The stages one by one, instead of `devices` and `cuts`. A stage may have several devices, as with torch's
   * `model.layer3 = nn.DataParallel(model.layer3)`. Write
   * `[{ devices: ['cuda:0'] }, { module: 'layer3', devices: ['cuda:0', 'cuda:1'] }, { devices: ['cuda:0'] }]`.
   * @default undefined
   */
  readonly stages: readonly StagePlace[] | undefined;
  /**
   * How rows reach the devices of a stage that has several and does not say it itself.
   * @default 'dynamic'
   */
  readonly split: Split;
  /**
   * Rows of a part, from 0 to 65,536; 0 makes about four parts per stage. The more parts, the less the stages wait at the start and at the
   * end of a batch: of `m` parts over `k` stages, `m / (m + k − 1)` of the time is used. With 0, a batch stays whole if the file shows that
   * its rows depend on one another, or that an output has no row per row. Rows depend on one another in a mean or softmax over the batch, a
   * product of all rows with all, or one 8-bit scale for all. A number is your word that parts of so many rows are right; with dependent
   * rows, the process warns of it (`TAPIR_ROWS_DEPENDENT`).
   * @default 0
   */
  readonly microBatch: number;
  /**
   * Session options of onnxruntime.
   * @default {}
   */
  readonly session: Options<SessionOptions>;
}

/** Options with what says where the stages lie. */
export type PipelineRequest<Asked = PipelineOptions['outputDtype']> = Options<
  Omit<PipelineOptions, 'outputDtype'>
> & { readonly outputDtype?: Asked } & (Pick<PipelineOptions, 'devices'> | Pick<PipelineOptions, 'stages'>);

const PIPELINE_FIELDS: Fields<PipelineOptions> = {
  ...REWRITE_FIELDS,
  outputDtype: OUTPUT_DTYPE,
  ...LANE_FIELDS,
  by: SPLIT_FIELDS.by,
  maxTensors: SPLIT_FIELDS.maxTensors,
  memoryBytes: SPLIT_FIELDS.memoryBytes,
  devices: unchecked([]),
  cuts: optional(checkNames),
  stages: unchecked(undefined),
  split: unchecked('dynamic'),
  microBatch: PARALLEL_FIELDS.microBatch,
  session: unchecked({}),
};

/** The devices of a stage, and how rows reach them. */
export interface ReadPlace {
  readonly devices: readonly ResolvedDevice[];
  readonly split: Split;
}

/** A checked request. */
export interface ReadPipeline {
  /** The stages of each of the pipelines side by side. */
  readonly chains: readonly (readonly ReadPlace[])[];
  readonly setup: SessionSetup;
  readonly microBatch: number;
  /** The arguments of {@link splitModel}. */
  readonly split: readonly [SplitPlaces, Options<SplitOptions>];
  readonly rewriting: RewriteOptions;
}

/** Checks the options. Throws `OPTION_INVALID`. */
export function readPipeline(given: PipelineRequest): ReadPipeline {
  const options = readOptions(PIPELINE_FIELDS, given, 'Pipeline.create');
  const { microBatch, session, by, maxTensors, memoryBytes } = options;
  const { chains, places } = options.stages === undefined ? readRows(options) : readPlaces(options);
  return {
    chains,
    setup: {
      session: readSessionOptions(session),
      lane: readLaneOptions(options),
    },
    microBatch,
    split: [places, { by, maxTensors, memoryBytes, batch: microBatch }],
    rewriting: pickFields(options, REWRITE_FIELDS),
  };
}

type ReadChains = Pick<ReadPipeline, 'chains'> & { readonly places: SplitPlaces };

/** One device per stage, in one pipeline or several. */
function readRows(options: PipelineOptions): ReadChains {
  const { devices: given, cuts } = options;
  refuseUnused(PIPELINE_FIELDS, options, ['split'], 'a pipeline with one device per stage');
  const isNested = Array.isArray(given) && given.some((row) => Array.isArray(row));
  const rows = (isNested ? given : [given]) as readonly (readonly Device[])[];
  const all = readDevices('devices', isNested ? rows.flat() : given);
  const stages = rows[0]!.length;
  if (rows.some((row) => row.length !== stages))
    throw invalidOption('devices', 'lists of as many devices each, one per stage', given);
  if (cuts !== undefined && cuts.length !== stages - 1)
    throw invalidOption('cuts', `${stages - 1} names for ${stages} devices`, cuts);
  const chains = rows.map((_, i) =>
    all
      .slice(i * stages, (i + 1) * stages)
      .map((device) => ({ devices: [device], split: 'dynamic' as const })),
  );
  return { chains, places: cuts === undefined ? { stages } : { cuts } };
}

/** Stages that are described one by one. */
function readPlaces(options: PipelineOptions): ReadChains {
  const given: unknown = options.stages;
  const expected = 'a list of { until or module, devices }';
  refuseUnused(PIPELINE_FIELDS, options, ['cuts', 'maxTensors'], 'a pipeline with option "stages"');
  if (!Array.isArray(options.devices) || options.devices.length > 0)
    throw invalidOption(
      'devices',
      'left out: option "stages" names the devices of each stage',
      options.devices,
    );
  if (!Array.isArray(given) || given.length === 0) throw invalidOption('stages', expected, given);
  const spans: StageSpan[] = [];
  const places = given.map((stage: unknown, i): ReadPlace => {
    const option = `stages[${i}]`;
    if (!isPlainObject(stage)) throw invalidOption(option, '{ until or module, devices }', stage);
    const { devices, split, ...span } = stage;
    spans.push(readSpan(option, span));
    const read = readDevices(`${option}.devices`, devices);
    return { devices: read, split: readSplit(split ?? options.split, read.length) };
  });
  return { chains: [places], places: { stages: spans } };
}
