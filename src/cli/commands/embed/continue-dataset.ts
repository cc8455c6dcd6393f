/** `tapir embed SOURCE --out DIR` continues a dataset: what the run that made it was told is in its manifest. */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { invalidOption, isPlainObject } from '../../../base/checks.js';
import { readJson } from '../../../base/read-json.js';
import { JOURNAL_FILE, MANIFEST_FILE } from '../../../datasets/files/file-names.js';
import { applyOptions } from '../../flags/settings.js';

/** The options that all runs into a dataset share, by the names of their values. */
const SHARED = [
  'model return part pool l2Normalize tokensToMap dynamicBatch transform decode tiles clips',
  'cropRows keepDims dims name dtype format checksum engine precision',
].flatMap((names) => names.split(' '));

/** Those that a command was given, for the manifest. */
export function sharedOptions(command: Command): Readonly<Record<string, unknown>> {
  const given = SHARED.filter((key) => (command.getOptionValueSource(key) ?? 'default') !== 'default');
  return Object.fromEntries(given.map((key) => [key, textOf(key, command.getOptionValue(key))]));
}

function textOf(key: string, value: unknown): unknown {
  if (key === 'name' && isPlainObject(value)) return `column:${String(value['column'])}`;
  // Of tiles and clips, the size or the frames come first.
  if (isPlainObject(value))
    return Object.entries(value)
      .map(([name, one], i) => (i === 0 ? String(one) : `${name}=${String(one)}`))
      .join(',');
  const isFile = (key === 'model' || key === 'transform') && existsSync(String(value));
  return isFile ? resolve(String(value)) : value;
}

/** The words that continue the dataset of `--out`, for a command without `--model`. Throws `OPTION_INVALID`. */
export function continueDataset(command: Command): string[] {
  const { out, model, overwrite } = command.opts<{
    readonly out?: string;
    readonly model?: string;
    readonly overwrite: boolean;
  }>();
  if (out === undefined || out === '-' || model !== undefined || overwrite) return [];
  const manifest = readJson(join(out, MANIFEST_FILE), (reason) =>
    invalidOption('--out', `a dataset whose manifest can be read (${reason})`, out),
  ) as { readonly model?: unknown; readonly run?: { readonly options?: unknown } | null } | undefined;
  const options = manifest?.run?.options;
  if (isPlainObject(options)) return applyOptions(command, `manifest of ${out}:`, options);
  if (manifest?.model === null)
    throw invalidOption('--out', 'a dataset of tapir embed: imported vectors take no photos', out);
  const isUnfinished = existsSync(join(out, JOURNAL_FILE));
  if (!manifest && !isUnfinished) return [];
  const held = manifest ? 'its manifest does not say them' : 'it is unfinished';
  const asBefore = `stated, with --return and all other flags as before: of "${out}" they are not known yet`;
  throw invalidOption('--model', `${asBefore}, because ${held}`, undefined);
}
