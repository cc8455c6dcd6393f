/** Paths of files in decisions, in CONTRIBUTING and in docblocks name files of the tree. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { projectPath } from './support/fixtures.js';

const ROOTS = [
  'src',
  'test',
  'bench',
  'conformance',
  'docs',
  'examples',
  'integrations',
  'models',
  'scripts',
  'wasm',
];
const filesBelow = (folder: string): string[] =>
  readdirSync(projectPath(folder), { recursive: true, encoding: 'utf8' }).map(
    (path) => `${folder}/${path.replaceAll('\\', '/')}`,
  );

const tree = ROOTS.flatMap(filesBelow).filter((path) => !path.includes('node_modules'));
/** The ends of all paths: a decision may leave out the folders that everybody knows. */
const ends = new Set(
  tree.flatMap((path) => {
    const parts = path.split('/');
    return parts.map((_, i) => parts.slice(i).join('/'));
  }),
);

/** A path with a folder, and the ending of a source. Test fixtures of other repositories, and files that users have, have none such. */
const PATH = /(?<![\w/.@-])(?:[\w-]+\/)+[\w-]+(?:\.[\w-]+)*\.(?:ts|js|cjs|mjs|py|sh)(?![\w])/g;

const texts = [
  'CONTRIBUTING.md',
  ...tree.filter((path) => /^docs\/decisions\/.*\.md$/.test(path)),
  ...tree.filter((path) => /^src\/.*\.ts$/.test(path)),
];

function staleIn(file: string): string[] {
  const text = readFileSync(projectPath(file), 'utf8');
  // Of a source, its comments.
  const read = file.endsWith('.md') ? text : (text.match(/\/\*\*[\s\S]*?\*\/|\/\/ .*/g) ?? []).join('\n');
  return (read.match(PATH) ?? []).filter((path) => !ends.has(path)).map((path) => `${file}: ${path}`);
}

it('names no file that has moved', () => {
  expect(texts.flatMap(staleIn)).toEqual([]);
});
