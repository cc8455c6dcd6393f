/** The number of this process among several, from the environment variables of the program that launched them. */
import { TapirError } from '../../base/errors.js';

/** Environment variables, such as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A process among several that were launched together. */
export interface Launcher {
  /** The launcher; null for a process that was started alone. */
  readonly name: 'torchrun' | 'Open MPI' | 'Slurm' | 'Kubernetes' | null;
  /** Number of the process, from 0. */
  readonly rank: number;
  readonly worldSize: number;
  /** Number of the process on its machine; null if unknown. */
  readonly localRank: number | null;
}

/** The statement of one launcher, before it is compared with others. */
interface Claim extends Launcher {
  /** Number of processes on this machine; null if unknown. */
  readonly localWorldSize: number | null;
  readonly variables: Readonly<Record<string, string>>;
}

const TORCHRUN = ['RANK', 'WORLD_SIZE', 'LOCAL_RANK'] as const;
const OPEN_MPI = ['OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'] as const;
const SLURM = ['SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_LOCALID'] as const;
const SLURM_ARRAY = [
  'SLURM_ARRAY_TASK_ID',
  'SLURM_ARRAY_TASK_MIN',
  'SLURM_ARRAY_TASK_COUNT',
  'SLURM_ARRAY_TASK_STEP',
] as const;
const KUBERNETES = 'JOB_COMPLETION_INDEX';

/**
 * Reads the number of this process from its launcher: torchrun, Open MPI, Slurm (`srun`, job arrays, or both), Kubernetes Indexed
 * Jobs. Without a launcher there is one process. If one launcher started another (torchrun under Slurm), the inner one counts.
 *
 * @param env - See {@link Environment}.
 * @param count - The expected number of processes. Kubernetes does not tell it, so an Indexed Job needs it.
 * @throws {@link TapirError} `LAUNCHER_INVALID` if the variables of a launcher are incomplete or hold wrong numbers, or if they
 * contradict another launcher or `count`.
 */
export function readLauncher(env: Environment, count?: number): Launcher {
  const claims = [
    readStarted(env, 'torchrun', TORCHRUN, 'torchrun', 'LOCAL_WORLD_SIZE'),
    readStarted(env, 'Open MPI', OPEN_MPI, 'mpirun', 'OMPI_COMM_WORLD_LOCAL_SIZE'),
    readSlurm(env),
  ];
  const [inner, ...outer] = claims.filter((claim) => claim !== undefined);
  if (!inner) return checkCount(readKubernetes(env, count) ?? ONE_PROCESS, count);
  for (const claim of outer) checkAgreement(claim, inner);
  return checkCount(inner, count);
}

const ONE_PROCESS: Claim = {
  name: null,
  rank: 0,
  worldSize: 1,
  localRank: null,
  localWorldSize: null,
  variables: {},
};

/** Reads the variables of a command that starts all processes; `localSize` names the variable with their number on this machine. */
function readStarted(
  env: Environment,
  name: Claim['name'],
  variables: readonly string[],
  command: string,
  localSize: string,
): Claim | undefined {
  const set = readGroup(env, variables, `start all processes with ${command}`);
  if (!set) return undefined;
  const local = env[localSize] ?? '';
  const localWorldSize = local === '' ? null : readNumbers({ [localSize]: local })[0]!;
  return claim(name, readNumbers(set), set, localWorldSize);
}

/** Reads the tasks of `srun`, the jobs of an array, or the tasks of each job of an array. */
function readSlurm(env: Environment): Claim | undefined {
  const array = readArray(env);
  const tasks = readTasks(env, array !== undefined);
  if (!array) return tasks;
  const { rank, worldSize, localRank } = tasks ?? ONE_PROCESS;
  const numbers = [array.index * worldSize + rank, array.count * worldSize, localRank ?? 0];
  return claim('Slurm', numbers, { ...array.set, ...tasks?.variables }, tasks ? null : 1);
}

function readTasks(env: Environment, isInArray: boolean): Claim | undefined {
  // Each task is a process only within a step (`srun`). A batch script sees number 0 and the job's number of tasks.
  const isInStep = (env['SLURM_STEP_ID'] ?? env['SLURM_STEPID'] ?? '') !== '';
  const others = [...TORCHRUN, ...OPEN_MPI].some((name) => (env[name] ?? '') !== '');
  const tasks = env['SLURM_NTASKS'] ?? '';
  const isSingle = tasks === '' || tasks === '1';
  if (!isInStep && (others || (isInArray && isSingle))) return undefined;
  const set = readGroup(env, SLURM, 'start it with srun, and set the number of tasks: --ntasks');
  if (!set) return undefined;
  const numbers = readNumbers(set);
  if (!isInStep && numbers[1]! > 1)
    throw invalid(
      set,
      `the job has ${numbers[1]} tasks, but this process is not one of them (SLURM_STEP_ID is not set): start it with srun`,
    );
  return claim('Slurm', numbers, set);
}

function readArray(
  env: Environment,
): { readonly index: number; readonly count: number; readonly set: Record<string, string> } | undefined {
  // The default step is 1.
  const filled = env['SLURM_ARRAY_TASK_ID'] && { SLURM_ARRAY_TASK_STEP: '1', ...withoutEmpty(env) };
  const set = readGroup(filled || env, SLURM_ARRAY, 'submit it with sbatch --array');
  if (!set) return undefined;
  const [id, min, count, step] = readNumbers(set);
  const index = (id! - min!) / step!;
  if (step! < 1 || !Number.isInteger(index) || index < 0 || index >= count!) {
    throw invalid(
      set,
      `task ${id} is not among ${count} tasks from ${min} in steps of ${step}: the array must be a range (--array=0-7), not a list`,
    );
  }
  return { index, count: count!, set };
}

/** Kubernetes is asked last: it does not tell the number of processes, and a launcher inside a job does. */
function readKubernetes(env: Environment, count: number | undefined): Claim | undefined {
  const index = env[KUBERNETES] ?? '';
  if (index === '') return undefined;
  const set = { [KUBERNETES]: index };
  if (count === undefined)
    throw invalid(
      set,
      'Kubernetes does not tell the number of indexes: set it with --shard auto/COMPLETIONS',
    );
  return claim('Kubernetes', [...readNumbers(set), count], set);
}

/** Reads a launcher's variables: undefined if none of them is set. Throws if only some are. */
function readGroup(
  env: Environment,
  names: readonly string[],
  advice: string,
): Record<string, string> | undefined {
  const set: Record<string, string> = {};
  for (const name of names) if ((env[name] ?? '') !== '') set[name] = env[name]!;
  const missing = names.filter((name) => !(name in set));
  if (missing.length === names.length) return undefined;
  if (missing.length > 0) {
    const unset = `${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} not`;
    throw invalid(set, `${Object.keys(set).join(', ')} set, ${unset}: ${advice}`);
  }
  return set;
}

/** The values, in order. */
function readNumbers(set: Readonly<Record<string, string>>): number[] {
  return Object.entries(set).map(([name, text]) => {
    if (/^\d{1,9}$/.test(text)) return Number(text);
    throw invalid(set, `${name} is not a whole number`);
  });
}

/** @param numbers - Rank, world size and, if it is known, local rank. */
function claim(
  name: Claim['name'],
  numbers: readonly number[],
  variables: Readonly<Record<string, string>>,
  localWorldSize: number | null = null,
): Claim {
  const [rank = 0, worldSize = 1, localRank = null] = numbers;
  if (rank >= worldSize)
    throw invalid(variables, `process ${rank} of ${worldSize} does not exist: numbers start at 0`);
  return { name, rank, worldSize, localRank, localWorldSize, variables };
}

/** Checks that both launchers have the same numbers, or that the outer one has one process per machine. */
function checkAgreement(outer: Claim, inner: Claim): void {
  const isSame = outer.rank === inner.rank && outer.worldSize === inner.worldSize;
  const isNested =
    inner.localWorldSize !== null && outer.worldSize * inner.localWorldSize === inner.worldSize;
  if (isSame || isNested) return;
  const text = ({ name, rank, worldSize }: Claim): string => `${name} says process ${rank} of ${worldSize}`;
  throw invalid(
    { ...outer.variables, ...inner.variables },
    `${text(inner)}, ${text(outer)}: unset the variables of one, or set the part with --shard i/n`,
  );
}

function checkCount(found: Claim, count: number | undefined): Launcher {
  const { name, rank, worldSize, localRank, variables } = found;
  if (count !== undefined && count !== worldSize) {
    const who = name === null ? 'no launcher has set its variables' : `${name} has launched ${worldSize}`;
    throw invalid(variables, `${count} processes are expected, but ${who}`);
  }
  return { name, rank, worldSize, localRank };
}

function withoutEmpty(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, text]) => (text ?? '') !== ''));
}

function invalid(
  variables: Readonly<Record<string, string>>,
  reason: string,
): TapirError<'LAUNCHER_INVALID'> {
  const set = Object.entries(variables).map(([name, text]) => `${name}=${text}`);
  const found = set.length > 0 ? ` (${set.join(', ')})` : '';
  return new TapirError('LAUNCHER_INVALID', `the launcher's environment is wrong: ${reason}${found}`, {
    details: { variables, reason },
  });
}
