/** Descriptions of the lanes of a model: of the pruned model itself, or of one that was prepared for all lanes. */
import { deviceName, type ResolvedDevice } from '../../runtime/lanes/device.js';
import { CAPABILITIES, checkPrecision } from '../../runtime/capabilities/capabilities.js';
import { prepareModel, warnUnprepared, type PreparedFor } from '../../runtime/prepare-model.js';
import { cacheOf, isWhole, type CacheEntry } from '../../runtime/lanes/prepared-cache.js';
import type { LaneDescription } from '../../runtime/lanes/protocol.js';
import { describeCompiled } from './describe-compiled.js';
import { checkRunnable, listHostNodes } from '../open/check-runnable.js';
import { addedNodes } from '../../../onnx/graph/rewrite/rewrite.js';
import { prunedInternals, type PrunedModel } from '../prune/pruned-model.js';
import { describeModel, identifyRewrite, type DescribeLane, type SessionSetup } from './session-model.js';
import { describeMapped } from './weights-in-file.js';
import { listExternal } from '../../../onnx/file/external-data.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import { scanModel } from '../../../onnx/file/scan/scan.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { memorySource } from '../../../onnx/file/wire/source.js';

/** A preparation under way, or what it gave: nothing if the model is opened as it is. */
type Preparing = Promise<CacheEntry | undefined>;

/** Smaller models open as fast without preparation, and two copies of them do no harm. */
const LEAST_BYTES = 8 * 1024 * 1024;

/**
 * Describes the lanes of one model, those that are opened again after a death included: they share one preparation.
 *
 * @param sessions - How many are opened together.
 * @returns Per device, what {@link openReplica} calls for each session. It throws `SESSION_FAILED` for what onnxruntime-node cannot
 * run, and `PRECISION_UNSUPPORTED` for a lowered model that the engine or the device does not compute.
 */
export function describeLanes(
  pruned: PrunedModel | Promise<PrunedModel>,
  setup: SessionSetup,
  sessions: number,
): (device: ResolvedDevice) => DescribeLane {
  const { engine } = setup.lane;
  const describe =
    CAPABILITIES[engine].keeps === 'compiled'
      ? describeCompiled(pruned, setup)
      : describeGraph(pruned, setup, sessions);
  return (device) => {
    const describeOn = describe(device);
    return async (failure) => {
      const { rewrite, lowered } = prunedInternals.of(await pruned);
      checkRunnable(rewrite, device);
      if (lowered && !lowered.isPlain)
        checkPrecision(lowered.precision, engine, { type: device.type, name: deviceName(device) });
      return describeOn(failure);
    };
  };
}

/** Descriptions of the graph itself, or of one that onnxruntime has optimised and saved. */
function describeGraph(
  pruned: PrunedModel | Promise<PrunedModel>,
  setup: SessionSetup,
  sessions: number,
): (device: ResolvedDevice) => DescribeLane {
  const preparations = new Map<PreparedFor, Preparing>();
  const renewed = new Set<PreparedFor>();
  const prepare = (target: PreparedFor): Preparing => {
    const preparing = preparations.get(target) ?? tryPrepare(pruned, setup, target, sessions);
    preparations.set(target, preparing);
    return preparing;
  };
  /** Once for an entry that was deleted in between; otherwise the model itself is opened from now on. */
  const giveUp = async (target: PreparedFor, failed: Preparing): Promise<void> => {
    const entry = await failed;
    const canRenew = entry !== undefined && !renewed.has(target) && !(await isWhole(entry));
    if (preparations.get(target) !== failed) return; // Another lane was first.
    renewed.add(target);
    preparations.set(target, canRenew ? tryPrepare(pruned, setup, target, sessions) : NOTHING);
  };
  return (device) => {
    const target = targetOf(device, setup);
    if (target === undefined) return async () => describeLane(await pruned, device, setup);
    let used: Preparing = NOTHING;
    return async (failure) => {
      if (failure !== undefined) await giveUp(target, used);
      const preparing = prepare(target);
      const entry = await preparing;
      used = preparing;
      return entry
        ? describePrepared(entry, await pruned, device, setup)
        : describeLane(await pruned, device, setup);
    };
  };
}

const NOTHING: Preparing = Promise.resolve(undefined);

/** What a model can be prepared for; undefined where it must not be. */
function targetOf(device: ResolvedDevice, { session, lane }: SessionSetup): PreparedFor | undefined {
  if (CAPABILITIES[lane.engine].keeps !== 'graph') return undefined;
  // Which device "auto" is, is known only once the session is open.
  if (lane.cache === 'off' || device.type === 'auto') return undefined;
  // The user's own way of saving, or of finding weights.
  if (/external_initializers|prepacked/.test(JSON.stringify(session.extra))) return undefined;
  if (device.type === 'cpu') return 'cpu';
  const isGpu = device.type === 'cuda' || device.type === 'webgpu';
  return isGpu && lane.cache === 'always' ? 'gpu' : undefined;
}

async function tryPrepare(
  pruning: PrunedModel | Promise<PrunedModel>,
  { session, lane }: SessionSetup,
  target: PreparedFor,
  sessions: number,
): Preparing {
  const pruned = await pruning;
  const { source } = pruned;
  const { kept } = pruned.plan;
  if (lane.cache === 'auto' && sessions < 2) return undefined;
  // Weights in other files are mapped already if the graph is taken as it is.
  const isMapped = session.graphOptimizationLevel === 'disabled' && kept.externalFiles.length > 0;
  if (lane.cache === 'auto' && (isMapped || (kept.bytes < LEAST_BYTES && kept.externalFiles.length === 0)))
    return undefined;
  const { rewrite } = prunedInternals.of(pruned);
  // Model errors surface later, when it is opened unprepared.
  const identified = await identifyRewrite(source, rewrite).catch(() => undefined);
  if (!identified || (lane.cache === 'auto' && identified.bytes < LEAST_BYTES)) return undefined;
  const cache = cacheOf(lane);
  const casts = [...rewrite.cut.nodes, ...addedNodes(rewrite)].filter(
    ({ opType }) => opType === 'Cast',
  ).length;
  try {
    return await prepareModel({
      ...identified,
      target,
      session,
      lane,
      cache,
      describe: () => describeModel(source, rewrite),
      arePacksSafe,
      refuse: (graph) => (target === 'gpu' ? whyNotOnGpu(graph, casts) : undefined),
    });
  } catch (error) {
    warnUnprepared(error);
    return undefined;
  }
}

/** What a lane needs to open a pruned model on a device. */
async function describeLane(
  pruned: PrunedModel,
  device: ResolvedDevice,
  { session, lane }: SessionSetup,
): Promise<LaneDescription> {
  const { rewrite } = prunedInternals.of(pruned);
  const model = await describeMapped(pruned.source, rewrite, session);
  return { ...model, device, session, precision: lane.precision, cudaLibraries: lane.cudaLibraries };
}

function describePrepared(
  { graph, folder }: CacheEntry,
  pruned: PrunedModel,
  device: ResolvedDevice,
  { session, lane }: SessionSetup,
): LaneDescription {
  return {
    // A copy: the bytes are moved to the lane.
    model: graph.slice(),
    externalFolder: folder,
    hostNodes: listHostNodes(prunedInternals.of(pruned).rewrite),
    device,
    session: device.type === 'cpu' ? { ...session, graphOptimizationLevel: 'disabled' } : session,
    cudaLibraries: lane.cudaLibraries,
    isPrepared: true,
  };
}

/** Operators whose packed matrices are one block of floats. */
const PACKED_OPS: ReadonlySet<string> = new Set(['MatMul', 'FusedMatMul', 'Gemm', 'FusedGemm']);
/** The alignment of onnxruntime's allocator; its kernels load packed matrices in whole vector registers. */
const ALIGNMENT = 64;

/**
 * Whether the packed matrices of a saved graph can be mapped: onnxruntime 1.30 writes them after the weights wherever those end,
 * and crashes (SIGSEGV in Gemm) on one that is not aligned. Those of other operators than products of floats are not trusted.
 */
export function arePacksSafe(graph: Uint8Array): boolean {
  const { initializers, nodes } = scanModel(memorySource(graph)).graph;
  return listExternal({ initializers, nodes }).every(({ tensor }) =>
    packsOf(tensor).every((pack) => tensor.elemType === ELEMENT_TYPE.float32 && isSafe(pack)),
  );
}

/** Entries as `Gemm+6959216030870521856|130608;8192;0`: operator, hash, and offset, length, checksum of each block. */
function packsOf({ external }: ScannedTensor): string[] {
  return [...(external ?? [])].flatMap(([key, value]) => (key.startsWith('prepacked') ? [value] : []));
}

function isSafe(pack: string): boolean {
  const [key = '', ...blocks] = pack.split('|');
  const numbers = blocks.join(';').split(';');
  if (!PACKED_OPS.has(key.split('+')[0]!) || numbers.length !== 3) return false;
  return Number.isSafeInteger(Number(numbers[0])) && Number(numbers[0]) % ALIGNMENT === 0;
}

/**
 * Why a graph that was prepared on the CPU must not run on a GPU: the CPU computes in float32 where it has no float16, through Cast nodes,
 * which a GPU would run as well. `casts` are those of the graph before.
 */
function whyNotOnGpu(graph: Uint8Array, casts: number): string | undefined {
  const { nodes } = scanModel(memorySource(graph)).graph;
  const now = nodes.filter(({ opType }) => opType === 'Cast').length;
  return now > casts ? 'its float16 parts would run in float32' : undefined;
}
