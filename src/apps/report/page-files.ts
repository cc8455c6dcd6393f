/** The page's own script and style, as they lie beside this file when the package is built. */
import { readFile } from 'node:fs/promises';
import { packageFile } from '../../base/package.js';

/** The script and the style to put into a page. */
export async function readPageFiles(): Promise<{ readonly script: string; readonly style: string }> {
  const read = (name: string): Promise<string> => readFile(packageFile(`dist/lib/page/${name}`), 'utf8');
  const [script, style] = await Promise.all([read('page.js'), read('page.css')]);
  return { script, style };
}
