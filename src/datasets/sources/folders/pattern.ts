/** Patterns of files, as shells have them: `photos/*.jpg`, `shard-{000..009}.tar`. */
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { expand as Expand } from 'brace-expansion';
import { packageRequire } from '../../../base/package.js';
import { invalidSource } from '../items/source-errors.js';

/** A file that a pattern matches. */
export interface Match {
  /** Relative to the pattern's folder, with `/`. */
  readonly name: string;
  readonly path: string;
}

/** A pattern, taken apart. */
export interface Pattern {
  /** The folder of all files: the pattern up to the last `/` before its first special character. */
  readonly base: string;
  /** The pattern without its braces: one per combination, relative to the base. */
  readonly patterns: readonly string[];
  /** Whether these are plain names, so that the pattern itself lists the files. */
  readonly isList: boolean;
}

const GLOB_SIGNS = /[*?[\]\\]|[!+@]\(/;

/** Whether a text is more than a path. */
export function isPattern(text: string): boolean {
  return GLOB_SIGNS.test(text) || /\{.*(,|\.\.).*\}/.test(text);
}

/** Takes a pattern apart. Throws `SOURCE_INVALID` for braces that mean more than 100,000 names, or none. */
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

const MAX_NAMES = 100_000;
/** Limits of the library: characters of all names together, and steps of work (100,000 names from five braces take a million). */
const LIMITS = { max: MAX_NAMES + 1, maxLength: 2 ** 24, maxDepth: 100, maxSteps: 2e6 };
/** Stands for an escaped character while braces are expanded. Half of a surrogate pair occurs in no file name. */
const ESCAPED = 0xdc00;

/** brace-expansion's function. The first pattern loads it, so that importing this package stays fast. */
const expand: typeof Expand = (...given) =>
  (packageRequire('brace-expansion') as { readonly expand: typeof Expand }).expand(...given);

/** Expands the braces of a pattern, in order. Escaped characters stay escaped. Throws `SOURCE_INVALID`. */
export function expandBraces(pattern: string): string[] {
  const hidden = pattern.replace(/\\([\\{},.])/g, (_, sign: string) =>
    String.fromCharCode(ESCAPED + sign.charCodeAt(0)),
  );
  const names = expand(hidden, LIMITS);
  if (names.length === 0) throw invalidSource(pattern, 'its braces mean no name');
  // Beyond a limit the library leaves out names, or leaves braces in.
  const characters = names.reduce((sum, { length }) => sum + length, pattern.length);
  if (names.length > MAX_NAMES || characters >= LIMITS.maxLength || hasOpenBraces(names.at(-1)!))
    throw invalidSource(
      pattern,
      `its braces mean more than ${MAX_NAMES} names or are nested too deeply; give a folder or a list`,
    );
  return names.map((name) =>
    name.replace(/[\udc00-\udc7f]/g, (sign) => `\\${String.fromCharCode(sign.charCodeAt(0) - ESCAPED)}`),
  );
}

/** Whether a name still has braces that mean several names. `${a,b}` means itself. */
function hasOpenBraces(name: string): boolean {
  const innermost = name.match(/(?<!\$)\{[^{}]*\}/g) ?? [];
  return innermost.some((braces) => expand(braces, { max: 2 }).length !== 1);
}

/**
 * Finds the files of a pattern. A list yields all of its names in its order, missing files included. Other patterns yield the
 * files in the order of their names' bytes, each file once even if links lead to it too.
 *
 * @remarks Holds the names of all matches in memory.
 * @param onRepeat - Called with each further name of a file.
 */
export async function* findMatches(
  { base, patterns, isList }: Pattern,
  onRepeat?: (name: string) => void,
): AsyncGenerator<Match> {
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
  yield* withoutRepeats(names, base, onRepeat);
}

/** Keeps one of the names that lead to the same file: the file's own, else the one through the fewest folders, else the first. */
async function* withoutRepeats(
  names: readonly string[],
  base: string,
  onRepeat?: (name: string) => void,
): AsyncGenerator<Match> {
  if (names.length === 0) return;
  const root = await realpath(base);
  const depthOf = (name: string, real: string): number =>
    join(root, name) === real ? 0 : name.split('/').length;
  const best = new Map<string, string>();
  const reals: string[] = [];
  for (const name of names) {
    // A file that has vanished stays; reading it gives its error.
    const real = await realpath(join(base, name)).catch(() => join(root, name));
    const other = best.get(real);
    if (other === undefined || depthOf(name, real) < depthOf(other, real)) best.set(real, name);
    reals.push(real);
  }
  for (const [i, name] of names.entries())
    if (best.get(reals[i]!) === name) yield { name, path: join(base, name) };
    else onRepeat?.(name);
}
