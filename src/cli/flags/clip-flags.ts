/** `--frames` and what goes with it: clips of videos. */
import type { Command } from 'commander';
import type { Options } from '../../base/checks.js';
import { CLIP_CUT_FIELDS, type ClipCutOptions } from '../../photos/images/transform/clip-options.js';
import { addFlags } from './option-flags.js';
import { rare } from './rare.js';

/** By option; a flag gives the field `clips` and the option's name. */
const FLAGS: Readonly<Record<keyof ClipCutOptions, string>> = {
  frames: rare('--frames <n>'),
  stride: rare('--stride <n>'),
  step: rare('--step <n>'),
};

type Prefixed = { readonly [Name in keyof ClipCutOptions as `clips.${Name}`]: ClipCutOptions[Name] };

/** Values of the flags; without all of them, images are embedded. */
export type ClipFlags = Partial<Prefixed>;

const NAMES = Object.keys(FLAGS) as (keyof ClipCutOptions)[];

export function addClipFlags(command: Command): Command {
  for (const name of NAMES) {
    const field = { ...CLIP_CUT_FIELDS[name], fallback: undefined };
    addFlags(command, { [`clips.${name}`]: field }, { [`clips.${name}`]: FLAGS[name] });
  }
  return command;
}

/** The option `clips`; undefined without any of the flags. */
export function readClipFlags(flags: ClipFlags): Options<ClipCutOptions> | undefined {
  const given = NAMES.filter((name) => flags[`clips.${name}`] !== undefined);
  return given.length === 0
    ? undefined
    : Object.fromEntries(given.map((name) => [name, flags[`clips.${name}`]]));
}
