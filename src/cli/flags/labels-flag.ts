/** `--labels FILE`: the labels of a classifier's classes, one on each line. */
import { readFile } from 'node:fs/promises';
import { invalidOption } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';

export const LABELS_HELP = "text file with the label of each class on a line (default: the model's metadata)";

/** Reads the labels, if a file is given. Throws `OPTION_INVALID`. */
export async function readLabelsFlag(path: string | undefined): Promise<string[] | undefined> {
  if (path === undefined) return undefined;
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw invalidOption('--labels', 'a text file that can be read', `${path}: ${reasonOf(error)}`);
  });
  return text.trimEnd().split(/\r?\n/);
}
