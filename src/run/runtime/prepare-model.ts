/**
 * Prepares a model once for all its sessions. onnxruntime optimises and saves it in a separate lane. Its weights go into a file that every
 * session maps instead of holding a copy (docs/decisions/007-prepared-models.md).
 */
import { createHash } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { freeBytes } from '../../base/atomic-file.js';
import { isTapirError, reasonOf } from '../../base/errors.js';
import { openLane } from './lanes/lane.js';
import type { LaneOptions } from './lanes/lane-options.js';
import { addEntry, findEntry, type CacheEntry, type CacheSettings } from './lanes/prepared-cache.js';
import { PREPARED_GRAPH, PREPARED_WEIGHTS } from './lanes/prepared-files.js';
import type { LaneDescription, SessionFacts } from './lanes/protocol.js';
import { findRuntimePackage } from './runtime-package.js';
import { describeMachine } from './cpu-features.js';
import type { SessionOptions } from './lanes/session-options.js';

/** The kind of device that a model is prepared for. GPUs lay out weights by themselves. */
export type PreparedFor = 'cpu' | 'gpu';

/** What to prepare, and how. */
export interface Preparation {
  /** A text that differs if the content of the model differs. */
  readonly identity: string;
  /** Size of the model, with its external weights. */
  readonly bytes: number;
  readonly target: PreparedFor;
  readonly session: SessionOptions;
  readonly lane: LaneOptions;
  readonly cache: CacheSettings;
  readonly describe: () => Promise<Pick<LaneDescription, 'model' | 'externalFolder'>>;
  /** Whether the packed matrices of a saved graph can be used. */
  readonly arePacksSafe: (graph: Uint8Array) => boolean;
  /** Why a prepared graph must not be used; undefined if it can be. */
  readonly refuse: (graph: Uint8Array) => string | undefined;
}

/** Changes with the format of entries. */
const FORMAT = 1;

/** Free space that preparing needs, as a multiple of the model's size: matrices are saved twice, plain and packed. */
const ROOM = 2.1;

/** The device of the lanes that save models and check them. */
const DEVICE = { type: 'cpu', id: 0, threads: 1 } as const;

/** Finds a prepared model in the cache, or prepares it. Throws if that is impossible; callers then open the model unprepared. */
export async function prepareModel(preparation: Preparation): Promise<CacheEntry> {
  const key = keyOf(preparation);
  const { cache } = preparation;
  const entry = (await findEntry(cache, key)) ?? (await addEntry(cache, key, (to) => fill(preparation, to)));
  if (entry.refused !== undefined) throw new Error(entry.refused);
  return entry;
}

function keyOf({ identity, target, session }: Preparation): string {
  const { graphOptimizationLevel, extra } = session;
  // Weights are laid out for the CPU, by this version of onnxruntime.
  const machine = [findRuntimePackage()?.version ?? '', ...describeMachine()];
  const words = [FORMAT, identity, target, graphOptimizationLevel, extra, machine];
  return createHash('sha256').update(JSON.stringify(words)).digest('hex');
}

/** Saves the model into a folder and checks the result. Returns why it cannot be used, if so. */
async function fill(preparation: Preparation, folder: string): Promise<string | undefined> {
  const { bytes, target, arePacksSafe, refuse } = preparation;
  if ((freeBytes(folder) ?? Infinity) < bytes * ROOM) throw new Error('the disk is full');
  let facts = await save(preparation, folder, target === 'cpu');
  if (!arePacksSafe(await readFile(join(folder, PREPARED_GRAPH)))) {
    await rm(join(folder, PREPARED_WEIGHTS), { force: true });
    facts = await save(preparation, folder, false);
  }
  const graph = await readFile(join(folder, PREPARED_GRAPH));
  return refuse(graph) ?? (await whyNotTheSame(preparation, folder, graph, facts));
}

/**
 * Opens the saved model and compares its inputs and outputs. onnxruntime 1.30 folds weights that are also listed as inputs, but keeps these
 * inputs. So a saved model can have more inputs than before.
 */
async function whyNotTheSame(
  { session, lane }: Preparation,
  folder: string,
  graph: Uint8Array,
  before: SessionFacts,
): Promise<string | undefined> {
  try {
    const { inputs, outputs } = await openOnce(lane, async () => ({
      model: Uint8Array.from(graph),
      externalFolder: folder,
      device: DEVICE,
      session: { ...session, graphOptimizationLevel: 'disabled' },
    }));
    const isSame = JSON.stringify([inputs, outputs]) === JSON.stringify([before.inputs, before.outputs]);
    return isSame ? undefined : 'ONNX Runtime saves it with other inputs or outputs';
  } catch (error) {
    return `ONNX Runtime cannot open what it has saved: ${reasonOf(error)}`;
  }
}

/** Opens a lane and closes it again. */
async function openOnce(lane: LaneOptions, describe: () => Promise<LaneDescription>): Promise<SessionFacts> {
  const opened = await openLane({ device: DEVICE, lane }, describe);
  await opened.close();
  return opened.facts;
}

function save(
  { target, session, lane, describe }: Preparation,
  folder: string,
  hasPacks: boolean,
): Promise<SessionFacts> {
  const { graphOptimizationLevel: level, logSeverityLevel } = session;
  return openOnce(lane, async () => ({
    ...(await describe()),
    device: DEVICE,
    session: {
      ...session,
      graphOptimizationLevel: target === 'gpu' && level !== 'disabled' ? 'basic' : level,
      // onnxruntime would warn that the saved graph is for this CPU only; the CPU is part of the key.
      logSeverityLevel: logSeverityLevel < 3 ? 3 : logSeverityLevel,
    },
    saveTo: { folder, hasPacks },
  }));
}

let hasWarned = false;

/** Emits the warning `TAPIR_CACHE_UNUSABLE`, once: models are not prepared, and why. */
export function warnUnprepared(error: unknown): void {
  if (hasWarned) return;
  hasWarned = true;
  const cause = isTapirError(error, 'OUTPUT_UNWRITABLE') ? error.cause : error;
  const isSystem = cause instanceof Error && 'syscall' in cause;
  const remedy = isSystem
    ? 'choose another cacheFolder, or set cache "off"'
    : 'set cache "off" to open models unprepared without this warning';
  process.emitWarning(
    `the model could not be prepared for several sessions, so each holds its own copy of the weights: ${reasonOf(error)}; ${remedy}`,
    { code: 'TAPIR_CACHE_UNUSABLE' },
  );
}
