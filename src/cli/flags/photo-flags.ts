/**
 * `--transform size=448,orientation=exif`, `--tile 512,overlap=64` and `--clip 16,stride=2`: how photos become pixels, and the rows that a
 * photo or a video gives.
 */
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { splitKeyValues } from '../../base/key-values.js';
import { nearestOrAll } from '../../base/nearest-names.js';
import type { Field, Fields } from '../../base/options.js';
import { PHOTO_FIELDS, type PhotoOptions } from '../../photos/feeds/photo-options.js';
import { CLIP_CUT_FIELDS } from '../../photos/images/transform/clip-options.js';
import { TILE_FIELDS } from '../../photos/images/transform/tile-options.js';
import { addFlags, readFieldText } from './option-flags.js';
import { rare } from './rare.js';

/** Values of the flags; without `tiles` and `clips`, whole photos are read. */
export interface PhotoFlags extends Partial<PhotoOptions> {
  readonly transform: string;
}

const FLAGS: Readonly<Record<keyof PhotoOptions, string>> = {
  transform: '--transform <name>',
  tiles: rare('--tile <size>'),
  clips: rare('--clip <frames>'),
};

const FIELDS: Fields<PhotoOptions> = {
  transform: PHOTO_FIELDS.transform,
  tiles: ledField(PHOTO_FIELDS.tiles, '--tile', 'size', TILE_FIELDS),
  clips: ledField(PHOTO_FIELDS.clips, '--clip', 'frames', CLIP_CUT_FIELDS),
};

/**
 * Adds those of the flags that a command serves.
 *
 * @param when - What stands before the help: `'with --photos: '`.
 */
export function addPhotoFlags(command: Command, served: readonly (keyof PhotoOptions)[], when = ''): Command {
  const flags = Object.fromEntries(served.map((name) => [name, FLAGS[name]]));
  return addFlags(command, FIELDS, flags, when);
}

/** A field whose text begins with the value of one option, and goes on with others: `512,overlap=64`. */
function ledField<Value, Named extends object>(
  { about, fallback }: Field<Value>,
  flag: string,
  lead: keyof Named & string,
  fields: Fields<Named>,
): Field<Value> {
  const others = Object.keys(fields).filter((one) => one !== lead);
  return {
    fallback,
    about: `${about}; behind it, with commas: ${others.map((one) => `${kebab(one)}=…`).join(', ')}`,
    reads: (text) => readLed(flag, text, lead, fields),
    // Each part is checked as it is read, and all together with the transform.
    check: (_option, value) => value as Value,
  };
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
