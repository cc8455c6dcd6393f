/** Flags for the parts that are added to the graph. */
import type { Command } from 'commander';
import { checkOneOf, invalidOption, type Options } from '../../base/checks.js';
import { POOLS, type Pool, type RewriteOptions } from '../../model/prune/rewrite-options.js';
import { collect } from './flag-values.js';

export interface PartFlags {
  readonly pool?: readonly string[];
  readonly l2Normalize: boolean;
  readonly tokensToMap: boolean;
  readonly dynamicBatch: boolean;
}

export function addPartFlags(command: Command): void {
  command
    .option(
      '--pool <[key=]how>',
      'one vector per row: avg or max of a map, cls or mean-tokens of tokens; repeatable with keys',
      collect,
    )
    .option('--l2-normalize', 'divide by the Euclidean norm over channels', false)
    .option('--tokens-to-map', 'turn patch tokens [N, L, C] into a map [N, C, H, W]', false)
    .option(
      '--dynamic-batch',
      'rewrite a graph with a fixed batch to take any batch, if that can be verified',
      false,
    );
}

export function readPartFlags({
  pool,
  l2Normalize,
  tokensToMap,
  dynamicBatch,
}: PartFlags): Options<RewriteOptions> {
  return {
    pool: readPool(pool ?? []),
    l2Normalize,
    tokensToMap,
    batch: dynamicBatch ? 'dynamic' : 'keep',
  };
}

/** `--pool avg` for all outputs, or `--pool KEY=avg` for each. */
function readPool(flags: readonly string[]): RewriteOptions['pool'] {
  const [first] = flags;
  if (first === undefined) return 'none';
  if (flags.length === 1 && !first.includes('=')) return checkOneOf('--pool', first, POOLS);
  const pools = new Map<string, Pool>();
  for (const flag of flags) {
    const equals = flag.lastIndexOf('=');
    const key = flag.slice(0, Math.max(0, equals));
    if (key === '' || pools.has(key))
      throw invalidOption('--pool', 'HOW once, or KEY=HOW once per output', flag);
    pools.set(key, checkOneOf('--pool', flag.slice(equals + 1), POOLS));
  }
  return pools;
}
