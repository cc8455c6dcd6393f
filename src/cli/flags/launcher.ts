/** Which of several processes this one is, as the program that launched them tells in the environment. */
import { TapirError } from '../../base/errors.js';

/** Environment variables, such as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A process among those that were launched together. */
export interface Launcher {
  /** Who launched it; null if nobody did. */
  readonly name: 'torchrun' | 'Open MPI' | 'Slurm' | 'Kubernetes' | null;
  /** Number of the process, from 0. */
  readonly rank: number;
  readonly worldSize: number;
  /** Its number among those of its machine; null where that is not told. */
  readonly localRank: number | null;
}

/** What a launcher says, before it is compared with others. */
interface Claim extends Launcher {
  /** Processes on this machine; null where that is not told. */
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
 * Reads who launched this process, and as which of how many: torchrun, Open MPI, Slurm (`srun`, job arrays, both), Kubernetes
 * Indexed Jobs. Without any of them it is one process. Of launchers that started each other (torchrun under Slurm) the inner one
 * counts.
 *
 * @param env - See {@link Environment}.
 * @param count - How many processes there must be. Kubernetes does not tell, so an Indexed Job needs it.
 * @throws {@link TapirError} `LAUNCHER_INVALID` if a launcher's variables are set in part, or hold no numbers that fit, or those of
 * two launchers contradict each other, or `count`.
 */
export function readLauncher(env: Environment, count?: number): Launcher {
  const claims = [readTorchrun(env), readOpenMpi(env), readSlurm(env)].filter((claim) => claim !== undefined);
  const [inner, ...outer] = claims;
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

function readTorchrun(env: Environment): Claim | undefined {
  const set = readGroup(env, TORCHRUN, 'start all processes with torchrun');
  if (!set) return undefined;
  const numbers = readNumbers(set);
  return claim('torchrun', numbers[0]!, numbers[1]!, numbers[2]!, localSize(env, 'LOCAL_WORLD_SIZE'), set);
}

function readOpenMpi(env: Environment): Claim | undefined {
  const set = readGroup(env, OPEN_MPI, 'start all processes with mpirun');
  if (!set) return undefined;
  const numbers = readNumbers(set);
  const size = localSize(env, 'OMPI_COMM_WORLD_LOCAL_SIZE');
  return claim('Open MPI', numbers[0]!, numbers[1]!, numbers[2]!, size, set);
}

/** The tasks of `srun`, the jobs of an array, or the tasks of each job of an array. */
function readSlurm(env: Environment): Claim | undefined {
  const array = readArray(env);
  const tasks = readTasks(env, array !== undefined);
  if (!array) return tasks;
  const { rank, worldSize, localRank } = tasks ?? { ...ONE_PROCESS, localRank: 0 };
  const set = { ...array.set, ...tasks?.variables };
  return claim(
    'Slurm',
    array.index * worldSize + rank,
    array.count * worldSize,
    localRank ?? 0,
    tasks ? null : 1,
    set,
  );
}

function readTasks(env: Environment, isInArray: boolean): Claim | undefined {
  // Only within a step (`srun`) is each task a process; a batch script is told number 0, and of the job's tasks.
  const isInStep = (env['SLURM_STEP_ID'] ?? env['SLURM_STEPID'] ?? '') !== '';
  const others = [...TORCHRUN, ...OPEN_MPI].some((name) => (env[name] ?? '') !== '');
  const tasks = env['SLURM_NTASKS'] ?? '';
  const isSingle = tasks === '' || tasks === '1';
  if (!isInStep && (others || (isInArray && isSingle))) return undefined;
  const set = readGroup(env, SLURM, 'start it with srun, and say how many tasks: --ntasks');
  if (!set) return undefined;
  const [rank, worldSize, localRank] = readNumbers(set);
  if (!isInStep && worldSize! > 1)
    throw invalid(
      set,
      `the job has ${worldSize} tasks, and this process is none of them: start it with srun`,
    );
  return claim('Slurm', rank!, worldSize!, localRank!, null, set);
}

function readArray(
  env: Environment,
): { readonly index: number; readonly count: number; readonly set: Record<string, string> } | undefined {
  // The step is 1 unless told otherwise.
  const filled = env['SLURM_ARRAY_TASK_ID'] && { SLURM_ARRAY_TASK_STEP: '1', ...withoutEmpty(env) };
  const set = readGroup(filled || env, SLURM_ARRAY, 'submit it with sbatch --array');
  if (!set) return undefined;
  const [id, min, count, step] = readNumbers(set);
  const index = (id! - min!) / step!;
  if (step! < 1 || !Number.isInteger(index) || index < 0 || index >= count!) {
    throw invalid(
      set,
      `task ${id} is none of ${count} that begin at ${min} in steps of ${step}: an array must be a range (--array=0-7), not a list`,
    );
  }
  return { index, count: count!, set };
}

/** It does not tell how many there are, so it is asked last: whatever runs inside of it knows. */
function readKubernetes(env: Environment, count: number | undefined): Claim | undefined {
  const index = env[KUBERNETES] ?? '';
  if (index === '') return undefined;
  const set = { [KUBERNETES]: index };
  if (count === undefined)
    throw invalid(
      set,
      'Kubernetes does not tell how many indexes there are: say it, --shard auto/COMPLETIONS',
    );
  return claim('Kubernetes', readNumbers(set)[0]!, count, null, null, set);
}

/** A launcher's variables: undefined if none is set. Throws if some are. */
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
    throw invalid(set, `${name} is no number from 0`);
  });
}

function localSize(env: Environment, name: string): number | null {
  const text = env[name] ?? '';
  return text === '' ? null : readNumbers({ [name]: text })[0]!;
}

function claim(
  name: Claim['name'],
  rank: number,
  worldSize: number,
  localRank: number | null,
  localWorldSize: number | null,
  variables: Readonly<Record<string, string>>,
): Claim {
  if (rank >= worldSize)
    throw invalid(variables, `process ${rank} of ${worldSize} does not exist: they are counted from 0`);
  return { name, rank, worldSize, localRank, localWorldSize, variables };
}

/** The same numbers, or one process of the outer launcher for all of the inner one's on a machine. */
function checkAgreement(outer: Claim, inner: Claim): void {
  const isSame = outer.rank === inner.rank && outer.worldSize === inner.worldSize;
  const isNested =
    inner.localWorldSize !== null && outer.worldSize * inner.localWorldSize === inner.worldSize;
  if (isSame || isNested) return;
  const text = ({ name, rank, worldSize }: Claim): string => `${name} says process ${rank} of ${worldSize}`;
  throw invalid(
    { ...outer.variables, ...inner.variables },
    `${text(inner)}, ${text(outer)}: unset one's variables, or say which part this is, --shard i/n`,
  );
}

function checkCount(found: Claim, count: number | undefined): Launcher {
  const { name, rank, worldSize, localRank, variables } = found;
  if (count !== undefined && count !== worldSize) {
    const who = name === null ? 'no launcher has set any variable' : `${name} has launched ${worldSize}`;
    throw invalid(variables, `there are to be ${count} processes, and ${who}`);
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
  return new TapirError('LAUNCHER_INVALID', `the environment does not fit: ${reason}${found}`, {
    details: { variables, reason },
  });
}
