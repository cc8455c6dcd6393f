/** `--shard`: the part of the inputs that this process embeds, and its GPU. */
import { InvalidArgumentError } from 'commander';
import { checkShard, type Shard } from '../../datasets/records/input-names.js';
import { readLauncher, type Environment } from './launcher.js';
import { listDevices } from '../../run/runtime/devices/device-list.js';

/** A shard, or `auto` for the one that the launcher assigns; `count` is the number of shards, if given. */
export type ShardFlag = Shard | { readonly auto: true; readonly count: number | undefined };

export interface ShardPlace {
  readonly shard: Shard;
  /** Number of this process on its machine; null if no launcher tells. */
  readonly localRank: number | null;
}

/** Parses `i/n`, `auto` or `auto/n`. */
export function parseShard(text: string): ShardFlag {
  const [, index, count] = /^(auto|\d{1,6})(?:\/(\d{1,6}))?$/.exec(text) ?? [];
  if (index === 'auto') return { auto: true, count: count === undefined ? undefined : Number(count) };
  if (index !== undefined && count !== undefined) return { index: Number(index), count: Number(count) };
  throw new InvalidArgumentError('It must be i/n with i from 0, or auto, or auto/n.');
}

/** Finds the shard. Throws `OPTION_INVALID`, `LAUNCHER_INVALID`. */
export function readShardFlag(flag: ShardFlag, env: Environment): ShardPlace {
  if ('index' in flag) return { shard: checkShard('--shard', flag), localRank: null };
  const { rank, worldSize, localRank } = readLauncher(env, flag.count);
  return { shard: checkShard('--shard', { index: rank, count: worldSize }), localRank };
}

/**
 * Assigns each process of a machine another GPU, `cuda:LOCAL_RANK`, unless the flags name devices. `auto` stays `auto` on a machine
 * without a GPU.
 */
export async function chooseLocalDevice<
  Flags extends { readonly device?: string; readonly devices?: string },
>(flags: Flags, { localRank }: ShardPlace): Promise<Flags> {
  const { device, devices } = flags;
  if (localRank === null || devices !== undefined) return flags;
  const isWanted = device === 'cuda' || (device === 'auto' && (await hasGpu()));
  return isWanted ? { ...flags, device: `cuda:${localRank}` } : flags;
}

async function hasGpu(): Promise<boolean> {
  return (await listDevices()).some(({ type, isUsable }) => type === 'cuda' && isUsable === true);
}
