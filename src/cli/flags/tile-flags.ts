/** `--tile` and what goes with it: how pictures are cut. */
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import {
  TILE_FIELDS,
  type TileOptions,
  type TilesGiven,
} from '../../photos/images/transform/tile-options.js';
import { addFlags } from './option-flags.js';
import { rare } from './rare.js';

/** By option; a flag gives the field `tile` and the option's name. */
const FLAGS: Readonly<Record<keyof TileOptions, string>> = {
  size: rare('--tile <size>'),
  overlap: rare('--overlap <n>'),
  edge: rare('--edge <how>'),
  fill: rare('--tile-fill <colour>'),
  scales: rare('--scales <list>'),
  interpolation: rare('--tile-interpolation <name>'),
  minStd: rare('--tile-min-std <x>'),
};

type Prefixed = { readonly [Name in keyof TileOptions as `tile.${Name}`]: TileOptions[Name] };

/** Values of the flags; without `--tile`, whole images are embedded. */
export type TileFlags = Partial<Prefixed>;

const NAMES = Object.keys(FLAGS) as (keyof TileOptions)[];

export function addTileFlags(command: Command): Command {
  for (const name of NAMES) {
    const field = { ...TILE_FIELDS[name], fallback: undefined };
    addFlags(command, { [`tile.${name}`]: field }, { [`tile.${name}`]: FLAGS[name] });
  }
  return command;
}

/** The option `tiles`. Throws `OPTION_INVALID` for flags that say nothing without `--tile`. */
export function readTileFlags(flags: TileFlags): TilesGiven | undefined {
  const given = NAMES.filter((name) => flags[`tile.${name}`] !== undefined);
  if (given.length === 0) return undefined;
  if (flags['tile.size'] === undefined)
    throw invalidOption('--tile', `a size, with ${FLAGS[given[0]!].split(' ')[0]}`, undefined);
  return Object.fromEntries(given.map((name) => [name, flags[`tile.${name}`]])) as unknown as TilesGiven;
}
