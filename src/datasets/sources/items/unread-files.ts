/** Files that are left out of a source. */
import { extensionOf, unreadAdvice } from '../../../photos/images/decode/image-names.js';

/**
 * The number of files by extension, such as `{ '.heic': 12 }`, in the order of the extensions. Links that are called like images and are
 * left out count as `'hard link'` (in compressed tars) and `'symbolic link'`, what else an archive holds as `'archive'` and `'other file'`.
 */
export type UnreadCounts = Readonly<Record<string, number>>;

/** Counts the files and links of a source that are not read. */
export class UnreadFiles {
  readonly #counts = new Map<string, number>();

  add(name: string): void {
    this.#count(extensionOf(name));
  }

  addLink(kind: 'hard' | 'symbolic'): void {
    this.#count(`${kind} link`);
  }

  addOther(kind: 'archive' | 'other file'): void {
    this.#count(kind);
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  /** Adds what another source left out. */
  addAll(counts: UnreadCounts): void {
    for (const [what, count] of Object.entries(counts))
      this.#counts.set(what, (this.#counts.get(what) ?? 0) + count);
  }

  clear(): void {
    this.#counts.clear();
  }

  get counts(): UnreadCounts {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** What to do about those that are not counted by their extension. No extension is called like them. */
const NAMED: ReadonlyMap<string, string> = new Map([
  ['hard link', 'to embed photos under the names of links in a compressed tar, decompress it'],
  [
    'symbolic link',
    'photos are embedded under the names of their files; to embed them under those of links, too, give a list of paths (of a tar: unpack it)',
  ],
  ['archive', 'an archive in an archive is not opened; unpack the outer one'],
  ['other file', 'the extension of a name says whether a file is an image'],
]);

/** Says how many files were skipped and what to do: a sentence per extension. */
export function describeUnread(counts: UnreadCounts): string[] {
  return Object.entries(counts).map(([extension, count]) => {
    const advice = NAMED.get(extension);
    if (advice) return `${count} ${extension}${count === 1 ? ' was' : 's were'} skipped: ${advice}`;
    const files = count === 1 ? `1 ${extension} file was` : `${count} ${extension} files were`;
    return `${files} skipped: ${unreadAdvice(extension)}`;
  });
}
