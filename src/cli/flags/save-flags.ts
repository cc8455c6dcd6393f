/** `--inline`, `--repack` and `--overwrite`: how a model is saved. */
import type { Command } from 'commander';
import { invalidOption } from '../../base/checks.js';
import { SAVE_FIELDS, type SaveOptions } from '../../model/open/save-whole.js';
import { addFlags } from './option-flags.js';

/** The flags as they are given. */
export interface SaveFlags {
  readonly inline: boolean;
  readonly repack: boolean;
  readonly overwrite: boolean;
}

/** Adds the flags. */
export function addSaveFlags(command: Command): Command {
  command
    .option('--inline', 'put external weights into the written file', false)
    .option('--repack', 'put external weights into a new file beside it, FILE.data', false);
  return addFlags(command, SAVE_FIELDS, { overwrite: '--overwrite' });
}

/** Reads the flags. Throws `OPTION_INVALID`. */
export function readSaveFlags({ inline, repack, overwrite }: SaveFlags): SaveOptions {
  if (inline && repack) throw invalidOption('--inline', 'given without --repack', 'both');
  return { weights: inline ? 'inline' : repack ? 'repack' : 'keep', overwrite };
}
