/** The page's own script and style, as they lie beside this file when the package is built. */
import { readFile } from 'node:fs/promises';

/** What the script is made of, each after what it imports. */
const SCRIPTS = [
  'decode',
  'geometry',
  'groups',
  'points',
  'elements',
  'theme',
  'drawing',
  'picture-cache',
  'tip',
  'map',
  'panel',
  'duplicates',
  'failures',
  'main',
] as const;

/** The script and the style to put into a page. */
export async function readPageFiles(): Promise<{ readonly script: string; readonly style: string }> {
  const read = (name: string): Promise<string> => readFile(new URL(`page/${name}`, import.meta.url), 'utf8');
  const [style, ...scripts] = await Promise.all([
    read('page.css'),
    ...SCRIPTS.map((name) => read(`${name}.js`)),
  ]);
  return { script: joinModules(scripts), style: style! };
}

/**
 * Modules as one script: an inline module cannot import another one. They are our own, compiled by tsc, with imports and exports
 * of names only, each on a line of its own.
 */
export function joinModules(modules: readonly string[]): string {
  const bodies = modules.map((text) =>
    text
      .replace(/^import [^;]*;\n/gm, '')
      .replace(/^export (?=(?:async )?(?:const|function|class)\b)/gm, '')
      .replace(/^export \{\};\n/gm, '')
      .replace(/^\/\/# sourceMappingURL=.*$/gm, ''),
  );
  return `(() => {\n'use strict';\n${bodies.join('')}})();\n`;
}
