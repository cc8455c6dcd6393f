/** `--tile 512,overlap=64` and `--clip 16,stride=2`: the rows that a photo or a video gives. */
import type { Command } from 'commander';
import { invalidOption, type Options } from '../../base/checks.js';
import { splitKeyValues } from '../../base/key-values.js';
import { nearestOrAll } from '../../base/nearest-names.js';
import { checkedBy, type Fields } from '../../base/options.js';
import { CLIP_CUT_FIELDS, type ClipCutOptions } from '../../photos/images/transform/clip-options.js';
import { TILE_FIELDS, type TilesGiven } from '../../photos/images/transform/tile-options.js';
import { addFlags, readFieldText } from './option-flags.js';
import { rare } from './rare.js';

/** Values of the flags; without them, whole images are embedded. */
export interface TileFlags {
  readonly tiles?: TilesGiven | undefined;
}

export interface ClipFlags {
  readonly clips?: Options<ClipCutOptions> | undefined;
}

export function addTileFlag(command: Command): void {
  addFlag(command, '--tile <size>', 'tiles', 'size', TILE_FIELDS);
}

export function addClipFlag(command: Command): void {
  addFlag(command, '--clip <frames>', 'clips', 'frames', CLIP_CUT_FIELDS);
}

/** A flag whose value begins with that of one option, and goes on with others: `--tile 512,overlap=64`. */
function addFlag<Named extends object>(
  command: Command,
  flag: string,
  name: string,
  lead: keyof Named & string,
  fields: Fields<Named>,
): void {
  const others = Object.keys(fields).filter((one) => one !== lead);
  const about = `${fields[lead].about}; behind it, with commas: ${others.map((one) => `${kebab(one)}=…`).join(', ')}`;
  const read = (text: string): object => readLed(flag.split(' ')[0]!, text, lead, fields);
  addFlags(
    command,
    { [name]: checkedBy((_, value) => value, undefined as unknown, about, read) },
    { [name]: rare(flag) },
  );
}

function readLed<Named extends object>(
  flag: string,
  text: string,
  lead: keyof Named & string,
  fields: Fields<Named>,
): object {
  const found = splitKeyValues(text) ?? { lead: text, values: new Map<string, string>() };
  if (found.lead === undefined) throw invalidOption(flag, `its ${lead} first, such as ${flag} 16,…`, text);
  const read = [[lead, readFieldText(flag, fields[lead], found.lead)] as const];
  const names = new Map(Object.keys(fields).map((name) => [kebab(name), name as keyof Named & string]));
  for (const [key, value] of found.values) {
    const name = names.get(kebab(key));
    if (name === undefined || name === lead) {
      const known = [...names.keys()].filter((one) => one !== lead);
      throw invalidOption(flag, `followed by ${nearestOrAll(key, known)}`, key);
    }
    read.push([name, readFieldText(`${flag} ${key}`, fields[name], value)]);
  }
  return Object.fromEntries(read);
}

/** `minStd` → `min-std`. */
function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
