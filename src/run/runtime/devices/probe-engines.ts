/** Tries the engines on the CPU: the facts about them in `tapir doctor`. */
import { reasonOf } from '../../../base/errors.js';
import {
  CAPABILITIES,
  ENGINE_PRECISIONS,
  ENGINES,
  type EngineName,
  type Precision,
} from '../capabilities/capabilities.js';
import { LANE_DEFAULTS } from '../lanes/lane-options.js';
import { probeDevice, type ProbeOptions, type ProbeResult } from './probe.js';

/** An engine, and the result of trying it on the CPU. */
export interface ProbedEngine {
  readonly name: EngineName;
  /** Null if it does not work. */
  readonly version: string | null;
  readonly isWorking: boolean;
  /** Why it does not work, and what to do; null if it works. */
  readonly reason: string | null;
  /** How it is called, and why not in a better way; null if there is one way. */
  readonly binding: ProbeResult['binding'];
  /** Folder of its libraries; null for onnxruntime, which is a dependency, and if it is not installed. */
  readonly folder: string | null;
  /** The precisions in which a small model ran. */
  readonly precisions: readonly Precision[];
}

/**
 * Tries each engine.
 *
 * @param cpu - The result of the default engine on the CPU.
 */
export async function probeEngines(cpu: ProbeResult, options: ProbeOptions): Promise<ProbedEngine[]> {
  const probed: ProbedEngine[] = [];
  for (const name of ENGINES) probed.push(await probeEngine(name, cpu, options));
  return probed;
}

async function probeEngine(name: EngineName, cpu: ProbeResult, options: ProbeOptions): Promise<ProbedEngine> {
  const { findLibraries, precisions } = CAPABILITIES[name];
  let folder: string | null = null;
  try {
    if (findLibraries) ({ folder } = findLibraries());
  } catch (error) {
    const reason = reasonOf(error);
    return { name, version: null, isWorking: false, reason, binding: null, folder, precisions: [] };
  }
  const tried = new Map<Precision, ProbeResult>();
  for (const precision of ENGINE_PRECISIONS) {
    if (!precisions[precision]) continue;
    const isKnown = name === LANE_DEFAULTS.engine && precision === LANE_DEFAULTS.precision;
    const result = isKnown ? cpu : await probeDevice(CPU, { ...options, on: { engine: name, precision } });
    tried.set(precision, result);
  }
  const { runtime: version, isWorking, reason, binding } = tried.get('float32')!;
  const working = ENGINE_PRECISIONS.filter((precision) => tried.get(precision)?.isWorking);
  return { name, version, isWorking, reason, binding, folder, precisions: working };
}

const CPU = { type: 'cpu', id: 0, threads: 1 } as const;
