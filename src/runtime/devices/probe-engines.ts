/** Tries the engines on the CPU: the facts about them in `tapir doctor`. */
import { reasonOf } from '../../base/errors.js';
import { ENGINE_PRECISIONS, type EngineName, type Precision } from '../lanes/lane-options.js';
import { findOpenVino } from './openvino-libraries.js';
import { probeDevice, type ProbeOptions, type ProbeResult } from './probe.js';

/** An engine, and the result of trying it on the CPU. */
export interface ProbedEngine {
  readonly name: EngineName;
  /** Null if it does not work. */
  readonly version: string | null;
  readonly isWorking: boolean;
  /** Why it does not work, and what to do; null if it works. */
  readonly reason: string | null;
  /** Folder of its libraries; null for onnxruntime, which is a dependency, and if it is not installed. */
  readonly folder: string | null;
  /** The precisions in which a small model ran. */
  readonly precisions: readonly Precision[];
}

/**
 * Tries each engine.
 *
 * @param cpu - The result of onnxruntime on the CPU.
 */
export async function probeEngines(cpu: ProbeResult, options: ProbeOptions): Promise<ProbedEngine[]> {
  const { runtime: version, isWorking, reason } = cpu;
  const precisions: readonly Precision[] = isWorking ? ['float32'] : [];
  return [
    { name: 'onnxruntime', version, isWorking, reason, folder: null, precisions },
    await probeOpenVino(options),
  ];
}

async function probeOpenVino(options: ProbeOptions): Promise<ProbedEngine> {
  const base = { name: 'openvino', version: null, isWorking: false, folder: null, precisions: [] } as const;
  let folder: string;
  try {
    ({ folder } = findOpenVino());
  } catch (error) {
    return { ...base, reason: reasonOf(error) };
  }
  const device = { type: 'cpu', id: 0, threads: 1 } as const;
  const tried = new Map<Precision, ProbeResult>();
  for (const precision of ENGINE_PRECISIONS)
    tried.set(precision, await probeDevice(device, { ...options, on: { engine: 'openvino', precision } }));
  const { runtime: version, isWorking, reason } = tried.get('float32')!;
  const precisions = ENGINE_PRECISIONS.filter((precision) => tried.get(precision)!.isWorking);
  return { ...base, version, isWorking, reason, folder, precisions };
}
