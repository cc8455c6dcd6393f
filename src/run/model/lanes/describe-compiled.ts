/** Descriptions of the lanes of a model on an engine that compiles: the model as it was compiled before, or one to compile and keep. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { externalTensors } from '../../../onnx/graph/rewrite/describe.js';
import { fetchesOf, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { OnnxModel } from '../open/open-model.js';
import { describeInputs } from '../open/value-info.js';
import { prunedInternals, type PrunedModel } from '../prune/pruned-model.js';
import { saveModel } from '../prune/save-model.js';
import { describeMachine } from '../../runtime/cpu-features.js';
import type { ResolvedDevice } from '../../runtime/lanes/device.js';
import type { LaneOptions } from '../../runtime/lanes/lane-options.js';
import { CAPABILITIES, type Capabilities } from '../../runtime/capabilities/capabilities.js';
import { cacheOf, dropEntry, findEntry, makeRemnant } from '../../runtime/lanes/prepared-cache.js';
import { PREPARED_WEIGHTS } from '../../runtime/lanes/prepared-files.js';
import type { LaneDescription } from '../../runtime/lanes/protocol.js';
import {
  describeModel,
  identifyRewrite,
  type DescribeLane,
  type ModelDescription,
  type SessionSetup,
} from './session-model.js';
import { checkOpenVino } from './check-openvino.js';
import { describeInMemory } from './weights-in-file.js';

/** Smaller models compile as fast as a compiled one opens. */
const LEAST_BYTES = 8 * 1024 * 1024;

/** The checks of what engines compute otherwise than ONNX says; they throw `ENGINE_UNSUPPORTED`. */
const CHECKS: Readonly<
  Record<NonNullable<Capabilities['refuses']>, (model: OnnxModel, rewrite: Rewrite) => Promise<void>>
> = { openvino: checkOpenVino };

/** Describes the lanes of a model; see {@link describeLanes}. */
export function describeCompiled(
  pruning: PrunedModel | Promise<PrunedModel>,
  { session, lane }: SessionSetup,
): (device: ResolvedDevice) => DescribeLane {
  const { precision } = lane;
  const { refuses } = CAPABILITIES[lane.engine];
  const cache = cacheOf(lane);
  return (device) => async (failure) => {
    const pruned = await pruning;
    const { rewrite } = prunedInternals.of(pruned);
    if (refuses) await CHECKS[refuses](pruned.source, rewrite);
    const outputs = fetchesOf(rewrite);
    const inputs = describeInputs(rewrite).map(({ name }) => name);
    const rest = { device, session, precision, inputs, outputs };
    const key = await keyOf(pruned, lane);
    // A compiled model that did not open is damaged, or of another build.
    if (key !== undefined && failure !== undefined) await dropEntry(cache, key);
    const entry = key === undefined ? undefined : await findEntry(cache, key);
    if (entry) {
      const compiledFile = join(entry.folder, PREPARED_WEIGHTS);
      return { ...rest, model: NOTHING, externalFolder: undefined, compiledFile, isPrepared: true };
    }
    const keepCompiled = key === undefined ? undefined : { cache, key };
    return { ...rest, ...(await describeSource(pruned, cache.folder, failure)), keepCompiled };
  };
}

const NOTHING = new Uint8Array(0);

/** Changes with the format of entries. */
const FORMAT = 1;

/** The key of the compiled model; undefined if it is not kept. */
async function keyOf(
  pruned: PrunedModel,
  { cache, engine, precision }: LaneOptions,
): Promise<string | undefined> {
  if (cache === 'off') return undefined;
  const { rewrite } = prunedInternals.of(pruned);
  const { identity, bytes } = await identifyRewrite(pruned.source, rewrite);
  if (cache === 'auto' && bytes < LEAST_BYTES) return undefined;
  const libraries = CAPABILITIES[engine].findLibraries?.().identity;
  const words = [FORMAT, engine, libraries, identity, precision, describeMachine()];
  return createHash('sha256').update(JSON.stringify(words)).digest('hex');
}

/** The model itself: its bytes, or a temporary file if it has external weights. OpenVINO reads weights only from the folder of the model's file. */
async function describeSource(
  pruned: PrunedModel,
  cacheFolder: string,
  failure: unknown,
): Promise<ModelDescription & Pick<LaneDescription, 'modelFile' | 'isPrepared'>> {
  const laidOut = prunedInternals.of(pruned);
  const { rewrite, request } = laidOut;
  if (externalTensors(rewrite).length === 0) {
    // A library that does not know addresses gets all bytes. Where files are not mapped, the lane would read the whole file for a cut.
    if (failure !== undefined || process.platform !== 'linux') return describeModel(pruned.source, rewrite);
    const described = await describeInMemory(pruned.source, rewrite);
    return { ...described, isPrepared: described.weightsFile !== undefined };
  }
  const modelFile = join(await makeRemnant(cacheFolder), 'model.onnx');
  const named = { ...laidOut, request: { ...request, naming: 'tensors' as const } };
  await saveModel(named, modelFile, pruned.plan, { weights: 'repack' });
  return { model: NOTHING, externalFolder: undefined, modelFile };
}
