/** The page's own script and style, as they lie beside this file when the package is built. */
import { readFile } from 'node:fs/promises';

/** The script and the style to put into a page. */
export async function readPageFiles(): Promise<{ readonly script: string; readonly style: string }> {
  const read = (name: string): Promise<string> => readFile(new URL(`page/${name}`, import.meta.url), 'utf8');
  const [script, style] = await Promise.all([read('page.js'), read('page.css')]);
  return { script, style };
}
