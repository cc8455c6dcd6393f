/**
 * A model prepared once for all its sessions: optimised and saved by onnxruntime, in a lane of its own, with weights that every
 * session maps instead of holding a copy (docs/decisions/007-prepared-models.md).
 */
import { createHash } from 'node:crypto';
import { readFile, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { reasonOf } from '../base/errors.js';
import { openLane } from './lane.js';
import type { LaneOptions } from './lane-options.js';
import { describeMachine } from './machine.js';
import { addEntry, findEntry, type CacheEntry, type CacheSettings } from './prepared-cache.js';
import { PREPARED_GRAPH, PREPARED_WEIGHTS } from './prepared-files.js';
import type { LaneDescription, SessionFacts } from './protocol.js';
import type { SessionOptions } from './session-options.js';

/** What a model is prepared for: GPUs lay weights out by themselves. */
export type PreparedFor = 'cpu' | 'gpu';

/** What is prepared, and how. */
export interface Preparation {
  /** Differs with the model's content. */
  readonly identity: string;
  /** Size of the model, its external weights included. */
  readonly bytes: number;
  readonly target: PreparedFor;
  readonly session: SessionOptions;
  readonly lane: LaneOptions;
  readonly cache: CacheSettings;
  readonly describe: () => Promise<Pick<LaneDescription, 'model' | 'externalFolder'>>;
  /** Whether packed matrices can be used as they were saved. */
  readonly arePacksSafe: (graph: Uint8Array) => boolean;
  /** Why a prepared graph must not be used; undefined if it may. */
  readonly refuse: (graph: Uint8Array) => string | undefined;
}

/** Changes with the form of entries. */
const FORMAT = 1;

/** Finds a prepared model in the cache, or makes it. Throws where that fails: sessions of the model itself are the way out. */
export async function prepareModel(preparation: Preparation): Promise<CacheEntry> {
  const key = keyOf(preparation);
  const { cache } = preparation;
  const entry = (await findEntry(cache, key)) ?? (await addEntry(cache, key, (to) => fill(preparation, to)));
  if (entry.refused !== undefined) throw new Error(entry.refused);
  return entry;
}

function keyOf({ identity, target, session }: Preparation): string {
  const { graphOptimizationLevel, extra } = session;
  const words = [FORMAT, identity, target, graphOptimizationLevel, extra, describeMachine()];
  return createHash('sha256').update(JSON.stringify(words)).digest('hex');
}

/** Saves the model, and looks at what was saved: returns why it cannot be used. */
async function fill(preparation: Preparation, folder: string): Promise<string | undefined> {
  const { bytes, target, arePacksSafe, refuse } = preparation;
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < bytes * ROOM) throw new Error('the disk is full');
  let facts = await save(preparation, folder, target === 'cpu');
  if (!arePacksSafe(await readFile(join(folder, PREPARED_GRAPH)))) {
    await rm(join(folder, PREPARED_WEIGHTS), { force: true });
    facts = await save(preparation, folder, false);
  }
  const graph = await readFile(join(folder, PREPARED_GRAPH));
  return refuse(graph) ?? (await whyNotTheSame(preparation, folder, graph, facts));
}

/** A saved model can take more inputs than before: onnxruntime 1.30 folds weights that are listed as inputs, and keeps the inputs. */
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
    return `ONNX Runtime does not open what it has saved: ${reasonOf(error)}`;
  }
}

const DEVICE = { type: 'cpu', id: 0, threads: 1 } as const;

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
      // It warns that the saved graph is for this CPU, which is in the key.
      logSeverityLevel: logSeverityLevel < 3 ? 3 : logSeverityLevel,
    },
    saveTo: { folder, hasPacks },
  }));
}

/** Matrices are saved twice: as they are, and packed. */
const ROOM = 2.1;

let hasWarned = false;

/** Says once that models are not prepared, and why. */
export function warnUnprepared(error: unknown): void {
  if (hasWarned) return;
  hasWarned = true;
  const isSystem = error instanceof Error && 'syscall' in error;
  const remedy = isSystem ? 'choose another cacheFolder, or cache "off"' : 'cache "off" does without';
  process.emitWarning(
    `the model could not be prepared for several sessions, so each holds its own copy of the weights: ${reasonOf(error)}; ${remedy}`,
    { code: 'TAPIR_CACHE_UNUSABLE' },
  );
}
