/** The group of the launcher: torchrun or Ray, through the Python process that started this one. */
import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net';
import { givenFields, type Options } from '../../../base/checks.js';
import { TapirError } from '../../../base/errors.js';
import { readOptions } from '../../../base/options.js';
import { packageVersion } from '../../../base/package.js';
import { GROUP_FIELDS, type GroupOptions } from './local-groups.js';
import { PipeGroup } from './pipe-group.js';
import { ALONE, type ProcessGroup } from './process-group.js';

/** The variable that the Python package sets: the file descriptor of its end of a socket pair. */
const PIPE = 'TAPIR_GROUP_FD';

/**
 * Joins the group that a launcher has started this process in. The Python package carries sums between ranks, with torch.distributed: start
 * `torchrun --nproc-per-node 4 -m onnx_tapir.run train.mjs`.
 *
 * @remarks Call it once in a process, and close the group after use.
 * @returns The group; one of a single rank in a process that no launcher has started.
 * @throws {@link TapirError} `LAUNCHER_INVALID` if a launcher has started several processes without the Python package; `RANK_LOST` if
 * another rank does not come within `timeoutMs`.
 *
 * @example
 * ```ts
 * import { createTrainer, joinGroup, type TrainBatch } from 'onnx-tapir/train';
 *
 * declare function rowsOf(rank: number, size: number): AsyncIterable<TrainBatch>;
 *
 * const group = await joinGroup();
 * const trainer = await createTrainer('resnet50.onnx', { loss: 'cross-entropy', optimizer: 'adam', batchNorm: 'synced', group });
 * for await (const batch of rowsOf(group.rank, group.size)) await trainer.step(batch);
 * await trainer.save('checkpoint'); // rank 0 writes
 * await trainer.close();
 * await group.close();
 * ```
 */
export async function joinGroup(given: Options<GroupOptions> = {}): Promise<ProcessGroup> {
  const options = readOptions(GROUP_FIELDS, givenFields(given, 'joinGroup'), 'joinGroup');
  const { [PIPE]: pipe, RANK = '', WORLD_SIZE = '' } = process.env;
  // What new Socket takes besides, its types do not say.
  const open = (onread: OnReadOpts): Socket =>
    new Socket({ fd: Number(pipe), onread } as SocketConstructorOpts);
  if (pipe !== undefined) return PipeGroup.join(open, packageVersion(), options.timeoutMs);
  if (Number(WORLD_SIZE) <= 1) return ALONE;
  const reason = `${WORLD_SIZE} processes were started, and nothing that carries sums between them: start them with torchrun -m onnx_tapir.train, or -m onnx_tapir.run SCRIPT (pip install onnx-tapir torch)`;
  throw new TapirError('LAUNCHER_INVALID', reason, { details: { variables: { RANK, WORLD_SIZE }, reason } });
}
