/** Replicas that several extractors use: each of them holds the replica, and the last one to let go closes it. */
import type { Runner } from '../../runtime/replica.js';

/** How many hold a replica. Whoever opened it holds it first. */
const holders = new WeakMap<Runner, number>();

/** Holds a replica once more. */
export function holdReplica(replica: Runner): Runner {
  holders.set(replica, (holders.get(replica) ?? 1) + 1);
  return replica;
}

/** Lets go of a replica; closes it, and waits for that, if nothing else holds it. */
export async function releaseReplica(replica: Runner): Promise<void> {
  const left = (holders.get(replica) ?? 1) - 1;
  holders.set(replica, left);
  if (left === 0) await replica.close();
}
