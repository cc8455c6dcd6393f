/** Who launched this process, by the environment it finds itself in. */
import { describe, expect, it } from 'vitest';
import { readLauncher, type Environment, type Launcher } from '../../../src/cli/flags/launcher.js';

const torchrun = (rank: number, world: number, local: number, localWorld = world): Environment => ({
  RANK: `${rank}`,
  WORLD_SIZE: `${world}`,
  LOCAL_RANK: `${local}`,
  LOCAL_WORLD_SIZE: `${localWorld}`,
});
const mpi = (rank: number, world: number, local: number, localWorld = world): Environment => ({
  OMPI_COMM_WORLD_RANK: `${rank}`,
  OMPI_COMM_WORLD_SIZE: `${world}`,
  OMPI_COMM_WORLD_LOCAL_RANK: `${local}`,
  OMPI_COMM_WORLD_LOCAL_SIZE: `${localWorld}`,
});
/** What a batch script sees, and with a step what srun's tasks see. */
const slurm = (rank: number, world: number | '', local: number, step?: number): Environment => ({
  SLURM_PROCID: `${rank}`,
  SLURM_NTASKS: `${world}`,
  SLURM_LOCALID: `${local}`,
  SLURM_STEP_ID: step === undefined ? undefined : `${step}`,
});
const array = (id: number, min: number, count: number, step: number | '' = 1): Environment => ({
  SLURM_ARRAY_TASK_ID: `${id}`,
  SLURM_ARRAY_TASK_MIN: `${min}`,
  SLURM_ARRAY_TASK_COUNT: `${count}`,
  SLURM_ARRAY_TASK_STEP: `${step}`,
});
const NOBODY: Launcher = { name: null, rank: 0, worldSize: 1, localRank: null };

describe('readLauncher', () => {
  it.each<[string, Environment, Launcher, count?: number]>([
    ['nobody', { PATH: '/bin' }, NOBODY],
    ['nobody, with empty variables', { RANK: '', WORLD_SIZE: '', JOB_COMPLETION_INDEX: '' }, NOBODY],
    ['nobody, and one is expected', {}, NOBODY, 1],
    ['torchrun', torchrun(5, 8, 1, 4), { name: 'torchrun', rank: 5, worldSize: 8, localRank: 1 }],
    [
      'torchrun, as many as expected',
      torchrun(1, 2, 1),
      { name: 'torchrun', rank: 1, worldSize: 2, localRank: 1 },
      2,
    ],
    ['Open MPI', mpi(3, 4, 1, 2), { name: 'Open MPI', rank: 3, worldSize: 4, localRank: 1 }],
    ['srun', slurm(6, 8, 2, 0), { name: 'Slurm', rank: 6, worldSize: 8, localRank: 2 }],
    ['a batch script of one task', slurm(0, 1, 0), { name: 'Slurm', rank: 0, worldSize: 1, localRank: 0 }],
    [
      'an array',
      { ...array(3, 0, 8), ...slurm(0, '', 0) },
      { name: 'Slurm', rank: 3, worldSize: 8, localRank: 0 },
    ],
    [
      'an array from 1',
      { ...array(8, 1, 8), ...slurm(0, 1, 0) },
      { name: 'Slurm', rank: 7, worldSize: 8, localRank: 0 },
    ],
    ['an array in steps', array(14, 10, 4, 4), { name: 'Slurm', rank: 1, worldSize: 4, localRank: 0 }],
    ['an array without a step', array(11, 10, 4, ''), { name: 'Slurm', rank: 1, worldSize: 4, localRank: 0 }],
    [
      'srun in an array',
      { ...array(2, 1, 3), ...slurm(3, 4, 1, 0) },
      { name: 'Slurm', rank: 7, worldSize: 12, localRank: 1 },
    ],
    [
      'an Indexed Job',
      { JOB_COMPLETION_INDEX: '2' },
      { name: 'Kubernetes', rank: 2, worldSize: 8, localRank: null },
      8,
    ],
    // The inner launcher counts.
    [
      'torchrun, told the same by srun',
      { ...torchrun(3, 4, 1, 2), ...slurm(3, 4, 1, 0) },
      { name: 'torchrun', rank: 3, worldSize: 4, localRank: 1 },
    ],
    [
      'torchrun on each node of srun',
      { ...torchrun(11, 16, 3, 8), ...slurm(1, 2, 0, 0) },
      { name: 'torchrun', rank: 11, worldSize: 16, localRank: 3 },
    ],
    [
      'torchrun in a batch script',
      { ...torchrun(2, 4, 2), ...slurm(0, 4, 0) },
      { name: 'torchrun', rank: 2, worldSize: 4, localRank: 2 },
    ],
    [
      'mpirun in a batch script',
      { ...mpi(2, 4, 2), ...slurm(0, '', 0) },
      { name: 'Open MPI', rank: 2, worldSize: 4, localRank: 2 },
    ],
    [
      'mpirun over nodes of Slurm',
      { ...mpi(5, 8, 1, 4), ...slurm(1, 2, 0, 0) },
      { name: 'Open MPI', rank: 5, worldSize: 8, localRank: 1 },
    ],
    [
      'torchrun in an Indexed Job',
      { ...torchrun(1, 2, 0, 1), JOB_COMPLETION_INDEX: '1' },
      { name: 'torchrun', rank: 1, worldSize: 2, localRank: 0 },
    ],
  ])('knows %s', (_, env, expected, count) => {
    expect(readLauncher(env, count)).toEqual(expected);
  });

  it.each<[string, Environment, RegExp, count?: number]>([
    [
      'torchrun without RANK',
      { WORLD_SIZE: '4', LOCAL_RANK: '0' },
      /WORLD_SIZE, LOCAL_RANK set, RANK is not.*WORLD_SIZE=4/,
    ],
    ['RANK alone', { RANK: '0' }, /RANK set, WORLD_SIZE, LOCAL_RANK are not/],
    ['an empty RANK', { ...torchrun(0, 4, 0), RANK: '' }, /RANK is not/],
    ['Open MPI in part', { OMPI_COMM_WORLD_SIZE: '4' }, /OMPI_COMM_WORLD_RANK, .*are not: start all/],
    [
      'an allocation without srun',
      { SLURM_NTASKS: '4' },
      /SLURM_PROCID, SLURM_LOCALID are not: start it with srun/,
    ],
    [
      'a batch script of many tasks',
      slurm(0, 4, 0),
      /the job has 4 tasks, but this process is not one of them \(SLURM_STEP_ID is not set\): start it with srun/,
    ],
    ['an array of many tasks without srun', { ...array(0, 0, 2), ...slurm(0, 4, 0) }, /start it with srun/],
    [
      'an array in part',
      { SLURM_ARRAY_TASK_ID: '3' },
      /SLURM_ARRAY_TASK_MIN, SLURM_ARRAY_TASK_COUNT are not/,
    ],
    ['an array that is a list', array(7, 1, 3), /task 7 is not among 3.*must be a range/],
    ['an array off its steps', array(12, 10, 4, 4), /steps of 4/],
    ['an array of step 0', array(1, 1, 4, 0), /steps of 0/],
    [
      'an Indexed Job alone',
      { JOB_COMPLETION_INDEX: '2' },
      /Kubernetes does not tell.*--shard auto\/COMPLETIONS/,
    ],
    ['an index beyond its job', { JOB_COMPLETION_INDEX: '8' }, /process 8 of 8 does not exist/, 8],
    ['a rank beyond its world', torchrun(4, 4, 0), /process 4 of 4 does not exist/],
    ['text', torchrun(NaN, 4, 0), /RANK is not a whole number.*RANK=NaN/],
    ['a negative rank', torchrun(-1, 4, 0), /RANK is not a whole number/],
    [
      'two worlds',
      { ...torchrun(0, 4, 0), ...mpi(0, 3, 0) },
      /torchrun says process 0 of 4, Open MPI says process 0 of 3/,
    ],
    [
      'ranks by hand under srun',
      { ...torchrun(0, 4, 0, 3), ...slurm(2, 4, 0, 0) },
      /torchrun says process 0 of 4, Slurm says process 2 of 4/,
    ],
    [
      'torchrun alone in each of an array',
      { ...torchrun(0, 8, 0), ...array(1, 0, 4) },
      /Slurm says process 1 of 4.*--shard i\/n/,
    ],
    ['fewer than expected', torchrun(0, 4, 0), /8 processes are expected, but torchrun has launched 4/, 8],
    ['nobody where some are expected', {}, /no launcher has set its variables/, 8],
  ])('refuses %s', (_, env, message, count) => {
    expect(() => readLauncher(env, count)).toThrow(
      expect.objectContaining({
        code: 'LAUNCHER_INVALID',
        message: expect.stringMatching(message) as string,
      }) as Error,
    );
  });

  it('says what is set', () => {
    expect(() => readLauncher({ WORLD_SIZE: '4', HOME: '/root' })).toThrow(
      expect.objectContaining({
        details: { variables: { WORLD_SIZE: '4' }, reason: expect.any(String) as string },
      }) as Error,
    );
  });
});
