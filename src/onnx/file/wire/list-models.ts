/** The models of a folder, for who gives a folder where a file is needed. */
import { readdirSync, type Dirent } from 'node:fs';
import { join } from 'node:path';

const MOST_FOLDERS = 50;
const MOST_NAMED = 8;

/** Says which ONNX files lie in a folder, or one folder down, as `onnx/model.onnx`: the names that can be given in its place. */
export function describeModels(folder: string): string {
  const entries = entriesOf(folder);
  const below = entries
    .filter((entry) => entry.isDirectory())
    .slice(0, MOST_FOLDERS)
    .flatMap(({ name }) => modelsIn(entriesOf(join(folder, name))).map((file) => join(name, file)));
  const found = [...modelsIn(entries), ...below];
  if (found.length === 0) return 'give the .onnx file itself';
  const more = found.length > MOST_NAMED ? ', …' : '';
  return `give one of its files: ${found
    .slice(0, MOST_NAMED)
    .map((name) => join(folder, name))
    .join(', ')}${more}`;
}

function modelsIn(entries: readonly Dirent[]): string[] {
  return entries.flatMap(({ name }) => (/\.onnx$/i.test(name) ? name : []));
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    return [];
  }
}
