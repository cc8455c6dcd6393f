/** Files by a pattern. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { expandBraces } from '../items/braces.js';

/** A file that a pattern means. */
export interface Match {
  /** Relative to the pattern's folder, with `/`. */
  readonly name: string;
  readonly path: string;
}

/** What a pattern means. */
export interface Pattern {
  /** The folder that all of its files lie in: the part before the first sign with a meaning, up to a `/`. */
  readonly base: string;
  /** Its brace lists expanded, relative to the base. */
  readonly patterns: readonly string[];
  /** Whether they are plain names: a list that says which files there are. */
  readonly isList: boolean;
}

const GLOB_SIGNS = /[*?[\]\\]|[!+@]\(/;

/** Whether a text is more than a path. */
export function isPattern(text: string): boolean {
  return GLOB_SIGNS.test(text) || /\{.*(,|\.\.).*\}/.test(text);
}

/** Takes a pattern apart. Throws `SOURCE_INVALID` for too many brace lists. */
export function readPattern(text: string): Pattern {
  const expanded = expandBraces(text);
  const parts = expanded.map((one) => one.split('/'));
  // The file's own name is never part of the base.
  let depth = Math.min(...parts.map(({ length }) => length)) - 1;
  const isShared = (at: number): boolean =>
    parts.every((one) => one[at] === parts[0]![at] && !GLOB_SIGNS.test(one[at]!));
  for (let at = 0; at < depth; at++) if (!isShared(at)) depth = at;
  const base = parts[0]!.slice(0, depth).join('/');
  return {
    base: base === '' && text.startsWith('/') && depth > 0 ? '/' : base || '.',
    patterns: parts.map((one) => one.slice(depth).join('/')),
    isList: !expanded.some((one) => GLOB_SIGNS.test(one)),
  };
}

/**
 * The files of a pattern: a list's in its order, whether they are there or not; others in the order of their names' bytes,
 * each file once where links lead to it too.
 *
 * @remarks The names of all matches are in memory.
 */
export async function* findMatches({ base, patterns, isList }: Pattern): AsyncGenerator<Match> {
  if (isList) {
    for (const name of patterns) yield { name, path: join(base, name) };
    return;
  }
  const { glob } = await import('tinyglobby');
  const found = await glob([...patterns], { cwd: base, expandDirectories: false });
  const names = found
    .map((name) => Buffer.from(name))
    .sort((a, b) => Buffer.compare(a, b))
    .map(String);
  yield* withoutLinksTwice(names, base);
}

/** Of several names that lead to one file: its own, else the one through the fewest folders, else the first. */
async function* withoutLinksTwice(names: readonly string[], base: string): AsyncGenerator<Match> {
  if (names.length === 0) return;
  const root = await realpath(base);
  const depthOf = (name: string, real: string): number =>
    join(root, name) === real ? 0 : name.split('/').length;
  const best = new Map<string, string>();
  const reals: string[] = [];
  for (const name of names) {
    // Gone in the meantime: an input that shows its own error.
    const real = await realpath(join(base, name)).catch(() => join(root, name));
    const other = best.get(real);
    if (other === undefined || depthOf(name, real) < depthOf(other, real)) best.set(real, name);
    reals.push(real);
  }
  for (const [i, name] of names.entries())
    if (best.get(reals[i]!) === name) yield { name, path: join(base, name) };
}
