/** Flags for the parts that are added to the graph. */
import type { Command } from 'commander';
import { checkOneOf, invalidOption, type Options } from '../../base/checks.js';
import { PARTS, POOLS, type RewriteOptions } from '../../run/model/prune/rewrite-options.js';
import { boolean, optional, type Fields } from '../../base/options.js';
import { collect } from './flag-values.js';
import { rare } from './rare.js';
import { addSettings } from './settings.js';

interface PartSettings {
  readonly l2Normalize: boolean;
  readonly tokensToMap: boolean;
  /** Left out: what the model's own file says. */
  readonly dynamicBatch?: boolean | undefined;
}

export interface PartFlags extends PartSettings {
  readonly part?: readonly string[];
  readonly pool?: readonly string[];
}

/** For all outputs. */
const PART_FIELDS: Fields<PartSettings> = {
  l2Normalize: boolean(false, 'divide by the Euclidean norm over channels'),
  tokensToMap: boolean(false, 'turn patch tokens [N, L, C] into a map [N, C, H, W]'),
  dynamicBatch: optional(
    boolean(false, 'rewrite a graph with a fixed batch to take any batch, if that can be verified'),
  ),
};

export function addPartFlags(command: Command): void {
  command
    .option(
      rare('--part <[key=]name>'),
      'keep only the class token, the registers or the patches of tokens [N, L, C]; repeatable with keys',
      collect,
    )
    .option(
      '--pool <[key=]how>',
      'one vector per image: avg or max of a map, cls or mean-tokens of tokens; repeatable with keys',
      collect,
    );
  addSettings(command, PART_FIELDS, ['l2Normalize', 'tokensToMap', 'dynamicBatch']);
}

export function readPartFlags({
  part,
  pool,
  l2Normalize,
  tokensToMap,
  dynamicBatch,
}: PartFlags): Options<RewriteOptions> {
  return {
    part: readPerKey('--part', part ?? [], PARTS, 'all'),
    pool: readPerKey('--pool', pool ?? [], POOLS, 'none'),
    l2Normalize,
    tokensToMap,
    batch: dynamicBatch === undefined ? undefined : dynamicBatch ? 'dynamic' : 'keep',
  };
}

/** `--pool avg` for all outputs, or `--pool KEY=avg` for each. */
function readPerKey<Item extends string>(
  flag: string,
  given: readonly string[],
  allowed: readonly Item[],
  fallback: Item,
): Item | ReadonlyMap<string, Item> {
  const [first] = given;
  if (first === undefined) return fallback;
  if (given.length === 1 && !first.includes('=')) return checkOneOf(flag, first, allowed);
  const items = new Map<string, Item>();
  for (const text of given) {
    const equals = text.lastIndexOf('=');
    const key = text.slice(0, Math.max(0, equals));
    if (key === '' || items.has(key))
      throw invalidOption(flag, 'VALUE once, or KEY=VALUE once per output', text);
    items.set(key, checkOneOf(flag, text.slice(equals + 1), allowed));
  }
  return items;
}
