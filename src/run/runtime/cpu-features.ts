/** The CPU of this machine: its name and its instruction sets. */
import { readFileSync } from 'node:fs';
import { arch, cpus, platform } from 'node:os';

/** What code that is laid out for this CPU depends on. */
export function describeMachine(): readonly string[] {
  // In a virtual machine, the instruction sets do not follow from the model name.
  return [platform(), arch(), cpus()[0]?.model ?? '', listCpuFlags().join(' ')];
}

/** The instruction sets of the CPU, in Linux's spelling (`avx2`, `amx_bf16`); empty where the system does not list them. */
export function listCpuFlags(): readonly string[] {
  if (platform() !== 'linux') return [];
  try {
    const text = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1];
    return text?.split(' ') ?? [];
  } catch {
    return [];
  }
}

/** Those of them on which the speed of a model depends. */
export function listInstructionSets(): readonly string[] {
  return listCpuFlags().filter((flag) => INSTRUCTION_SETS.has(flag));
}

const INSTRUCTION_SETS: ReadonlySet<string> = new Set(
  (
    'avx2 avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16 amx_fp16 ' +
    'asimddp i8mm bf16 sve sve2 sme'
  ).split(' '),
);
