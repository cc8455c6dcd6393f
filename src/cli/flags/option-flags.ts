/** Flags made from the options of the library: help, words, parser and default are those of the field. */
import { Option, type Command } from 'commander';
import type { Field, Fields } from '../../base/options.js';
import { parseCount, parseNumber } from './flag-values.js';

/**
 * Adds a flag for each named option.
 *
 * @param flags - How commander writes the flag, by option: `{ batch: '--batch <n>' }`.
 */
export function addFlags<Named>(
  command: Command,
  fields: Fields<Named>,
  flags: { readonly [Name in keyof Named]?: string },
): Command {
  const given = Object.entries(flags) as [keyof Named, string][];
  for (const [name, flag] of given) command.addOption(flagOf(flag, fields[name]));
  return command;
}

function flagOf(flag: string, { reads, fallback, about }: Field<unknown>): Option {
  const option = new Option(flag, about);
  if (reads === 'count') option.argParser(parseCount);
  else if (reads === 'number') option.argParser(parseNumber);
  else if (typeof reads !== 'string') option.choices(reads);
  return fallback === undefined ? option : option.default(fallback);
}
